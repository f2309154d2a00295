"""TradingAgents as durable work: a graph a ticker in chapters, its data from the run's market, its signal a report. The
modules that need LangGraph are imported by the steps alone."""
