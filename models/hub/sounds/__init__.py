"""Models of Hugging Face that read a sound."""
