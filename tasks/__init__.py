"""What runs when: the Celery app, the canvases, beat, the embedded services and the `desk` command."""
