"""The shared vocabulary of all packages: settings, errors, states, schemas, tables and the store."""
