"""Backup of a desk at work as of one point in time, and its restore into an empty place."""
