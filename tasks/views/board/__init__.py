"""Views of a run's board: signals, forecasts, voices and the tally."""
