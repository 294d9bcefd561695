"""The entry script, which only imports and calls.

A tensor at its top level would outlive its rerun.
"""

from viz_app.navigation import run_app

run_app()
