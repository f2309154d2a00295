"""`desk notify` and its subcommands."""
