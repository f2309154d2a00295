"""Who thinks: roles and prompts, the Codex runtime, the rulebook model."""
