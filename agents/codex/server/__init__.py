"""App-server processes: launch, client, pool, and the requests they send back."""
