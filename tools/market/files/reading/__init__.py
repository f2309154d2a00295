"""Reading of own files: tables, cells, and the problems found in them."""
