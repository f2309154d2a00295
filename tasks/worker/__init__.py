"""The Celery worker: app, queues, dispatch, turns, maintenance and stopping."""
