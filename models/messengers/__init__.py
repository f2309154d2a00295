"""People who write to the desk, and what is written to them."""
