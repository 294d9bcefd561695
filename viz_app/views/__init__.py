"""The pages: each declares the pictures, the controls and the text of one question."""
