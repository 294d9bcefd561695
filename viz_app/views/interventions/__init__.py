"""The page Interventions: heads switched off or scaled, and what that does to the answer."""
