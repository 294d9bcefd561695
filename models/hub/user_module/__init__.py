"""A PyTorch module of the user's own as a Scope."""
