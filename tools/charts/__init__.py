"""Charts: swings, levels, trends and patterns computed from bars, and the picture that shows them."""
