"""Changes to Celery, kombu and RedBeat, each with the reason and when it can be dropped."""
