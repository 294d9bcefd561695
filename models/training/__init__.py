"""Training: batches, objectives, the run, scores, and the plans of the shipped checkpoints."""
