"""Terminal output: data in, rich renderables out."""
