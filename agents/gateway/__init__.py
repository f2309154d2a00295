"""The gateway: a loopback service of a worker between its app-servers and a model's server."""
