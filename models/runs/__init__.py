"""A loaded checkpoint and its runs, as traces."""
