"""The graph of steps in the database: claims, leases, joins, sweep, limits and budgets. It knows no workflow."""
