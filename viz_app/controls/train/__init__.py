"""Controls of the page Train."""
