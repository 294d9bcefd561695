"""Lessons on the live models: Markdown files, their reader, and the readings of their numbers."""
