"""Events of runs: published, recorded, followed, trimmed."""
