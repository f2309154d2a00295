"""Episodes: their steps through real workers, and the functions beside them."""
