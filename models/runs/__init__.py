"""A loaded checkpoint and its runs: what may be asked of it, and the answers as traces."""
