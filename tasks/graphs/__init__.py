"""What the workflow of graphs is made of. The modules that need LangGraph are imported by its steps alone."""
