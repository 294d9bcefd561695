"""Training runs that the app starts: what may be changed, where they are kept, who trains when."""
