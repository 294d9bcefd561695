"""Watch third-party models where they call attention, and record them as our own."""
