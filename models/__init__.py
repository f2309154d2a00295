"""What every room speaks: settings, errors, states, schemas, tables and the store."""
