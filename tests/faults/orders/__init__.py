"""The faults of a desk that trades: kills, outages, halts and repeated messages around each order."""
