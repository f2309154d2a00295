"""Options: chains with figures, Greeks, volatilities and unusual volume, as roles ask for them."""
