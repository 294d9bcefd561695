"""The page Masks."""
