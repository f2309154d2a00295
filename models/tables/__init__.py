"""The SQL tables, one module a subject."""
