"""The limit on turns at once of each model, kept in Redis for all workers."""
