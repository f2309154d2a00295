"""What a role may call, and everything outside the desk but Codex: markets, portfolio, risk, orders, brokers."""
