"""Gauges: what is true now. Of the whole desk one process shows them, of itself each worker."""
