"""The bar above every page: the model, its texts, and examples."""
