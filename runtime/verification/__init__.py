"""Comparing what compiled code computes with what the kernel means."""
