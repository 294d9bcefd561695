"""Analyses of a run and of a model's weights: measures, comparisons and checks."""
