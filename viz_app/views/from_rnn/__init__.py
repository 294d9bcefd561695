"""The page From RNN to attention."""
