"""Third-party models: a Hugging Face folder (`open_folder`), or any PyTorch module (`own`).

One recorder serves both: it watches where attention is called, and knows no architecture.
"""
