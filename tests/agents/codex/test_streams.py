"""Recorded streams of the real binary through the whole adapter."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.golden.record import expected_of, replay
from tests.golden.scenes import SCENES


@pytest.mark.parametrize("name", SCENES)
async def test_a_recorded_stream_comes_to_what_it_came_to(name: str, tmp_path: Path) -> None:
    """The recorded server sends what the real one sent, and ends the scene when the desk sends anything else than then.
    Events, lifecycles, results and what a person was asked are compared as a whole."""
    seen = await replay(name, SCENES[name], tmp_path)
    assert seen == json.loads(expected_of(name).read_text(encoding="utf-8"))
