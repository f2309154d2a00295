"""Commands on folders of own data."""
