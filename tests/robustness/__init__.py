"""Stress tests that damage, kill and flood the product many times: `python -m tests.robustness.checkpoints` and its neighbours."""
