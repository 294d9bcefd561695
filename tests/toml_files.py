"""TOML in every supported Python: tomllib came with 3.11; on 3.10 pytest brings tomli, its predecessor."""

import sys

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["tomllib"]
