"""The desk's tools for programs that speak the Model Context Protocol."""
