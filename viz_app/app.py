"""The entry script. It only imports and calls: a tensor bound at its top level would outlive its rerun."""

from viz_app.navigation import main

main()
