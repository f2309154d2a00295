"""The board: questions that resolve, signals with their sources, forecasts of voices, and what they earn."""
