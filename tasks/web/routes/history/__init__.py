"""Routes of what happened: the course of runs, one feed of all events, symbols, reports and whole threads."""
