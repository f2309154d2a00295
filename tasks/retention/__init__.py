"""Retention: what the desk keeps for how long, and the deletion of the rest."""
