"""Its agents."""
