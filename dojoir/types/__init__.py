"""The types of expressions: elaboration, rounding, identities of accumulations, what an instruction does."""
