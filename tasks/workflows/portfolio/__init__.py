"""Research over what the account holds: which roles are due, why, and what a run of it came to."""
