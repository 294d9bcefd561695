"""What is done to the product on purpose, many times over: `python -m tests.robustness.checkpoints` and its neighbours."""
