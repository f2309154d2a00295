"""Options of commands as what they mean; one that is wrong raises UsageError, which names it."""
