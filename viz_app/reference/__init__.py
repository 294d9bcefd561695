"""The reference of the Python library as static pages: docstrings, and the names of a run.

They are made at the first request (about a second of processor time) from the installed modules:
nothing is built beforehand, and nothing can be out of date.
"""
