"""Lessons on the live models: a Markdown file each, with what reads it and what fills in its numbers."""
