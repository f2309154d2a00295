"""The migrations of the table of fills at Interactive Brokers."""
