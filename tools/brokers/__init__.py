"""Who takes orders. Paper is the only broker there is."""
