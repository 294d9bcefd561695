"""TOML in every supported Python: the standard library's reader came with 3.11, and pytest brings its predecessor before."""

import sys

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["tomllib"]
