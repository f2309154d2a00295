"""Views of a board."""
