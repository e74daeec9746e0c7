"""A classifier of handwritten digits."""
