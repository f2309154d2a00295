"""The migrations of the toy's tables."""
