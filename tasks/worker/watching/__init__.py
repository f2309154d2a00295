"""What a worker shows of itself and of the desk."""
