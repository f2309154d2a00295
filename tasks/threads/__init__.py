"""Kept threads as people handle them: look at them, let them go, fork them."""
