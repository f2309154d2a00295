"""Execution of runs: the Celery app, workflows, beat, the embedded services and the `desk` command."""
