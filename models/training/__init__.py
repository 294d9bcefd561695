"""From a task's examples to a checkpoint: batches, objectives, the run itself, scores, and the plans of the shipped ones."""
