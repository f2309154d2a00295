"""Tools of the roles, and the world outside: markets, portfolio, risk, orders, brokers."""
