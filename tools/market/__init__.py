"""Markets: one protocol, a replay of real daily prices, and live sources."""
