"""The folder that settings are loaded in."""

from __future__ import annotations

from pathlib import Path

import pytest

from chordesk.models.settings import Settings
from chordesk.models.settings.sources import load_settings


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return tmp_path


def of(here: Path, **environ: str) -> Settings:
    """Return the settings of an environment over the folder, with a home in it."""
    return load_settings({"DESK_HOME": str(here / "home"), **environ}, here)
