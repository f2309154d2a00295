"""What is read alike from every provider: its completions, its signs of life and its limits."""
