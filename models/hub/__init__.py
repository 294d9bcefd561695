"""Models of others: a Hugging Face folder as it lies on disk (`load`), or anybody's own module (`own_module`). One recorder
serves both: it watches where attention is called, and knows no architecture."""
