"""Web pages of allowed hosts, as text and as a picture."""
