"""The migrations of the tables of messengers."""
