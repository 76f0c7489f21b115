"""The definition of legal: value graphs compared, bounds, writes before reads, races, marks."""
