"""What is worked out from a run and from a model's weights: measures, comparisons, checks."""
