"""Results of runs of one kind alone, as a terminal shows them."""
