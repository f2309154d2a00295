"""Commands that walk over past days."""
