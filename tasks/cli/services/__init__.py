"""Commands that start processes or check on them."""
