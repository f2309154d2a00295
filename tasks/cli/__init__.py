"""The command `desk`: one module a noun, each with a `register(app)` that main calls."""
