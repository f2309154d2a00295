"""The board: what voices see of it, and what code makes of their forecasts. Pure: no database, no clock."""
