"""Lessons on the live models: Markdown files, their reader, and what fills in their numbers."""
