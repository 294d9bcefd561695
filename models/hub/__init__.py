"""Third-party models: a Hugging Face folder (`open_folder`), or any PyTorch module (`user_module`).

One recorder serves both: it watches where attention is called, whatever the architecture.
"""
