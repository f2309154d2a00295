"""The migrations of the tables of alerts."""
