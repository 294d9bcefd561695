"""Building blocks of the architectures."""
