"""Orders, from a trader's recommendation to a fill: draft, check, preview, gate, submit."""
