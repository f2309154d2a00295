"""Completion of the analysts' answers: code looks up what they name in the tool answers of the turn."""
