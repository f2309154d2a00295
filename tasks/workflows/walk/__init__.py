"""The parts of a backtest: the runs of a day, the row of a session, the result."""
