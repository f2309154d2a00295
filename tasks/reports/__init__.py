"""Documents about a run, a day or a symbol for people and programs: HTML, markdown or JSON, made once and kept."""
