"""Comparison of an account with its broker, and repair of the desk's books."""
