"""The state of a browser session: its choices, the shared cache, and live answers while typing."""
