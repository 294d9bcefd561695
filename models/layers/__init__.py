"""The parts that the architectures are made of."""
