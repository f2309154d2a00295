"""Lenses as files: what one says, the language of its rule, and its rule on the figures of a day."""
