"""Shared definitions of all packages: settings, errors, states, schemas, tables and the store."""
