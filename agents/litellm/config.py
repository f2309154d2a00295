"""Configuration of the LiteLLM runtime: its part of the settings."""

from __future__ import annotations

from dataclasses import dataclass, field

from chordesk.agents.limits import general_limits
from chordesk.agents.pulse import TurnLimits
from chordesk.agents.role_models import RULES_MODEL
from chordesk.models.settings import Settings


@dataclass(frozen=True, slots=True)
class LitellmConfig:
    """Settings of one worker's runtime. rulebook_url: base URL of the rulebook's chat completions, for the model
    `rulebook`. limits: of turns that bring none. verbosity: length of the answers of models that know it; None is their
    own default."""

    worker: str
    rulebook_url: str | None = None
    limits: TurnLimits = field(default_factory=TurnLimits)
    verbosity: str | None = None


def litellm_config(settings: Settings, worker: str) -> LitellmConfig:
    """Return the runtime's part of the settings. Keys and base URLs are not among them: the library reads each
    provider's own variables."""
    return LitellmConfig(worker, settings.rulebook_url, general_limits(settings), settings.verbosity)


def is_rules(model: str) -> bool:
    return model == RULES_MODEL
