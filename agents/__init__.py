"""Model turns: roles and prompts, the Codex runtime, the rulebook model."""
