"""Try out a Hugging Face folder in a separate process before this one reads it."""
