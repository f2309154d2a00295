"""`desk questions`: what the desk, event venues and persons ask, and what came of it."""
