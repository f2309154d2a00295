"""`desk setup`: what the user has, tried with one turn and written into `.env`."""
