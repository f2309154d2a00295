"""What the desk is asked in words: the clerk's answers, and the dialogues that are kept."""
