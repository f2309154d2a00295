"""Kept threads for people: list, reset and fork them."""
