"""What all pages share: which model, which text."""
