"""Third-party models: a Hugging Face folder (`load`), or any PyTorch module (`own`).

One recorder serves both: it watches where attention is called, and knows no architecture.
"""
