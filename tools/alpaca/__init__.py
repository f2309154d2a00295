"""Alpaca beside its broker: the HTTP that all of its clients use, and its option chains."""
