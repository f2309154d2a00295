"""The command that makes reports of runs, days and symbols."""
