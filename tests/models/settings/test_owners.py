"""The owner of each setting is marked; a snapshot has the desk's own and no secret; a step has its run's."""

from __future__ import annotations

from pathlib import Path

import pytest

from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import ORDERS, PUBLISHED, in_run, owner_of, snapshot
from chordesk.models.settings.schema import Owner

SECRETS = {"provider_key": "sk-hunter2", "api_token": "hunter2hunter2hunter2", "redis_url": "redis://:hunter2@host"}


def test_a_snapshot_has_all_of_the_desks_own_and_no_secret(tmp_path: Path) -> None:
    url = "https://user:hunter2@example.org/v1?key=hunter2"
    settings = Settings(
        home=tmp_path, provider="endpoint", provider_url=url.replace("user:hunter2@", ""), report_url=url, **SECRETS
    )
    found = snapshot(settings)
    assert "hunter2" not in str(found)
    assert found["provider_url"] == "https://example.org/v1"
    own = {name for name in Settings.model_fields if owner_of(name) is not Owner.PROCESS}
    assert own - found.keys() == {"provider_key", "sec_identity"}
    assert set(ORDERS) < set(PUBLISHED) == found.keys()


def test_a_step_has_the_settings_of_its_run_and_the_workers_own_limits_of_time(tmp_path: Path) -> None:
    opened = Settings(max_candidates=3, speculate=True, lenses="options", broker="alpaca-paper", turn_seconds=7)
    worker = Settings(home=tmp_path, max_candidates=9, turn_seconds=11, log_level="ERROR")
    used = in_run(worker, snapshot(opened))
    assert (used.max_candidates, used.speculate, used.lenses) == (3, True, ("options",))
    assert (used.broker, used.account) == ("alpaca-paper", "alpaca-paper")
    assert (used.turn_seconds, used.log_level, used.home) == (11, "ERROR", tmp_path)


def test_a_run_of_an_older_version_has_the_workers_settings() -> None:
    worker = Settings(max_candidates=9)
    assert in_run(worker, None) == worker
    assert in_run(worker, {"a_setting_of_a_later_version": 1, "shard_size": 5}).shard_size == 5


def test_a_value_that_this_version_cannot_read_is_named() -> None:
    with pytest.raises(UsageError, match="market='moon'"):
        in_run(Settings(), {"market": "moon"})


def test_the_file_of_a_universe_is_the_same_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.txt").write_text("IBM\n")
    monkeypatch.chdir(tmp_path)
    assert Settings(universe="mine.txt").universe == str(tmp_path / "mine.txt")
    assert Settings(universe="IBM," * 500).universe == "IBM," * 500
