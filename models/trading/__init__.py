"""Terms of trading beside an order's own: legs, protection and mandates."""
