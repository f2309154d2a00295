"""A setting of a feature that is off is not listed."""

from __future__ import annotations

import pytest

from chordesk.models import features
from chordesk.models.settings import Settings
from chordesk.models.settings.sources import Loaded
from chordesk.tasks.reading.setting_values import describe
from tests.parts import needs


@needs("board", "measure", "notifications")
def test_settings_of_a_feature_that_is_off_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    def listed() -> set[str]:
        return {row["name"] for row in describe(loaded)}

    monkeypatch.delenv(features.OFF, raising=False)
    loaded = Loaded(Settings(), {})
    everything = listed()
    monkeypatch.setenv(features.OFF, "board,notifications")
    assert {"rounds", "questions", "venues", "notify_zone"} <= everything - listed()
    assert "mask" in listed()
