"""What a desk cannot work without, asked with the workers' own functions before any process of it starts."""

from __future__ import annotations

import asyncio

from agents.codex.catalog import find_login, prepare
from agents.codex.config import runtime_config
from models.settings import Settings
from tools.market.factory import build_market


def require_able(settings: Settings) -> None:
    """Raises the DeskError that every worker would fail with: SettingError or NotConfigured for the market,
    BinaryMissing, LoginMissing or CodexError for the model."""
    build_market(settings)
    config = runtime_config(settings, "up")
    find_login(config)
    asyncio.run(prepare(config))
