"""Pre-trade risk: rules that clear an order or deny it with a reason, and the meaning of each denial code."""
