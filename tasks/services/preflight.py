"""What a desk cannot work without, asked with the workers' own functions before any process of it starts."""

from __future__ import annotations

import asyncio

from agents.codex.catalog import find_login, prepare
from agents.codex.config import runtime_config
from models.blobs import FolderBlobs
from models.settings import Settings
from tasks.telemetry.emit import Telemetry
from tools.market.factory import build_market


def require_able(settings: Settings) -> None:
    """Raises the DeskError that every worker would fail with: SettingError for telemetry and the folder of blobs,
    SettingError or NotConfigured for the market, BinaryMissing, LoginMissing or CodexError for the model."""
    Telemetry(settings, lambda: "up").check()
    if settings.blob_url is not None:
        FolderBlobs(settings.blob_url)
    build_market(settings)
    config = runtime_config(settings, "up")
    find_login(config)
    asyncio.run(prepare(config))
