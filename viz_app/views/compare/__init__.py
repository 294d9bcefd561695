"""The page Compare: the heads of two runs, or of one, beside each other."""
