"""The migrations of `tables`, each with the revision that its file's name begins with."""
