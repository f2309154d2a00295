"""Commands about the board: episodes, questions, voices and their scores."""
