"""The tool calls that models make: read from what a server sends, or from the text that a model wrote."""
