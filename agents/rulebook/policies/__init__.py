"""What the rulebook does in each role: which tools it asks, and what it makes of their answers."""
