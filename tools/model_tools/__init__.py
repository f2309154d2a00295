"""The tools that a role may call, one module a family."""
