"""Public benchmarks of agents: what a folder of their data holds, how an answer is scored, and the published rows."""
