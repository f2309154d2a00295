"""Sizes of stakes from numbers alone: Kelly, portfolios, heat, ruin. Nothing here knows a market or an account."""
