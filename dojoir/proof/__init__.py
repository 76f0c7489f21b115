"""The checker: whether a rewritten kernel means what the kernel before it meant."""
