"""Records of voices, tools, lenses, roles and verdicts: the rows of resolved questions, read for the formulas."""
