"""The models of documents: what their JSON has, and what HTML and markdown are made of."""
