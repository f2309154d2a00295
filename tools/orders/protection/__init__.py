"""Keeping positions protected: placing, moving and cancelling protective orders."""
