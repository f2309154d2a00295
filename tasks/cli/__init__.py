"""The command `desk`: one module per noun, each with the `commands` that main collects."""
