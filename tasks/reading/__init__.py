"""Read models: a run, an order or the whole desk, shaped once for text and for JSON."""
