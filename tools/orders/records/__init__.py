"""Order rows: their states, drafts, approvals, bookings and reservations."""
