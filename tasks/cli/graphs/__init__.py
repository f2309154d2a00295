"""Commands that play graphs of LangGraph."""
