"""Brokers: paper, Alpaca paper and Alpaca live, behind one protocol."""
