"""Synthesis of the analysts' reports on a symbol: what code concludes of them, and its checks."""
