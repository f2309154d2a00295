"""Its clients of models."""
