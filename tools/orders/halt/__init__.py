"""The trading state of an account: running, reducing or halted."""
