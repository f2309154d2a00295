"""The page in the browser: its login, and the files that it consists of."""
