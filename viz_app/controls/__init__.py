"""Controls and sections that several pages share; they belong to none of them."""
