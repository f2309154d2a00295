"""Documents from the views of the desk: what they have, and what is missing in them. Nothing here is shown yet."""
