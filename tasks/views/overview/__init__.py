"""The desk at a glance: what runs, what waits, and what comes next."""
