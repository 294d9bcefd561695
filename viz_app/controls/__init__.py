"""Controls and sections shared by several pages."""
