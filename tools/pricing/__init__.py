"""Figures of options from numbers alone: prices, Greeks, volatilities, returns. Nothing here knows a market."""
