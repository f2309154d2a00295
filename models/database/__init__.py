"""The database: one store, its blobs, and transactions that survive a lost connection."""
