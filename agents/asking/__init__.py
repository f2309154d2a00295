"""The clerk: the role that answers questions about the desk."""
