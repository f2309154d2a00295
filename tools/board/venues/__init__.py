"""Event markets of other venues and funding rates, read only: what they ask, what they cost, and how they differ."""
