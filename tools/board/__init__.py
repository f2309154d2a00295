"""The signals of a board, by the tools that find them in prices, symbols, news and event venues."""
