"""Its data."""
