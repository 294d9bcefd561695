"""Trying out a Hugging Face folder in a process of its own, before this one reads it."""
