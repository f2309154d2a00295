"""Its command line."""
