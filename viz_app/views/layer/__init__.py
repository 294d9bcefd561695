"""The page A layer, step by step."""
