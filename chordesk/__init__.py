"""An autonomous trading desk. What programs may import of it is in docs/api.md; all else may change.

The rooms lie at the top of the repository; here are links to them, so that an installed package owns this name alone.
"""
