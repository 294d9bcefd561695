"""Models of Hugging Face that read an image."""
