"""The page Task."""
