"""The migrations of the tables of questions and answers."""
