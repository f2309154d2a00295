"""The migrations of the tables of outside accounts."""
