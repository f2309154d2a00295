"""Protective stops: what one is, and the shares that it must cover."""
