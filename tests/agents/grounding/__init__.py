"""Figures of texts, their sources, and the rates on the two corpora."""
