"""A project with the same shapes as TradingAgents, as far as a provider meets them."""
