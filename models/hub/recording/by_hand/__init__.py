"""Record attention that a module writes out itself: a product, a softmax, a product with values."""
