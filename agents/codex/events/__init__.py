"""Translation of app-server notifications to the desk's events."""
