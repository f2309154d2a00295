"""Settings beside a running desk: what it has published is the weakest source, and a contradiction is refused."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from chordesk.models.errors import SettingError
from chordesk.models.settings import running_desk
from chordesk.models.settings.running_desk import snapshot
from chordesk.models.settings.sources import load, load_for_halt, load_settings
from tests.models.settings.conftest import of


class Up:
    """Files of a running `desk up` on the home, without its processes."""

    def __init__(self, home: Path) -> None:
        self.file = running_desk.services_path(home)
        self.file.parent.mkdir(parents=True)
        self.lock = running_desk.lock_path(home).open("w")
        fcntl.flock(self.lock, fcntl.LOCK_EX)

    def leave(self, table: object) -> None:
        self.file.write_text(json.dumps(table))


@pytest.fixture
def up(here: Path) -> Iterator[Up]:
    made = Up(here / "home")
    yield made
    made.lock.close()


def test_the_published_settings_of_a_desk_count_only_while_it_runs(here: Path, up: Up) -> None:
    environ = {"DESK_HOME": str(here / "home"), "DESK_MODEL": "mine"}
    up.leave({"redis_url": "unix:///here.sock", "provider": "codex", "model": "theirs"})
    with pytest.raises(SettingError, match="theirs"):
        load(environ, here)
    alone = load(environ, here, join=False).settings
    assert (alone.redis_url, alone.provider, alone.model) == (None, "rulebook", "mine")
    up.lock.close()
    assert load(environ, here).settings == alone
    up.leave([])
    assert load(environ, here).settings == alone


@pytest.mark.parametrize("table", [[], "text", 3, None])
def test_a_file_of_a_running_desk_that_cannot_be_read_is_reported(here: Path, up: Up, table: object) -> None:
    up.leave(table)
    with pytest.raises(SettingError, match=r"services\.json: holds no JSON object.*stop `desk up`"):
        of(here)
    up.file.write_text("{")
    with pytest.raises(SettingError, match=r"services\.json: .*stop `desk up`"):
        of(here)
    up.leave({"replay_date": ["soon"]})
    with pytest.raises(SettingError, match=r"replay_date=\['soon'\] \(from desk up\)"):
        of(here)


def test_a_terminal_with_other_features_than_the_running_desk_is_refused(here: Path, up: Up) -> None:
    up.leave({"provider": "rulebook", "features_off": ["board"]})
    with pytest.raises(SettingError, match="runs on this home with DESK_FEATURES_OFF='board', and here it is ''"):
        of(here)
    up.leave({"provider": "rulebook", "features_off": []})
    assert of(here).provider == "rulebook"


def test_a_second_terminal_uses_the_settings_of_the_running_desk(here: Path, up: Up) -> None:
    theirs = of(
        here,
        DESK_PROVIDER="endpoint",
        DESK_PROVIDER_URL="https://user:hunter2@example.org/v1?key=hunter2",
        DESK_REPLAY_DATE="2010-08-11",
        DESK_MODEL="big",
        DESK_BROKER="alpaca-paper",
    )
    up.leave(snapshot(theirs))
    assert "hunter2" not in up.file.read_text()
    loaded = load({"DESK_HOME": str(here / "home")}, here)
    names = ("provider", "model", "market", "replay_date", "broker")
    assert [getattr(loaded.settings, name) for name in names] == [getattr(theirs, name) for name in names]
    assert loaded.settings.provider_url == "https://example.org/v1"
    assert {loaded.origins[name].source for name in (*names, "provider_url")} == {"desk up"}
    same = of(here, DESK_PROVIDER="endpoint", DESK_PROVIDER_URL="https://user:hunter2@example.org/v1?key=hunter2")
    assert (same.model_label, same.replay_date) == (theirs.model_label, theirs.replay_date)


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"DESK_PROVIDER": "codex"}, r"DESK_PROVIDER='codex' \(from environment\).*provider='rulebook'"),
        ({"AUTONOMOUS_CONFIG_JSON": '{"model": "big"}'}, r"model='big' \(from AUTONOMOUS_CONFIG_JSON\).*gpt-5.5"),
        ({"TRADER_LIVE": "1"}, r"TRADER_LIVE=True \(from environment\).*trader_live=False"),
        # It could not be used beside the desk's turn_seconds either: the desk's value is what is named.
        ({"DESK_STEP_DEADLINE_SECONDS": "5"}, r"DESK_STEP_DEADLINE_SECONDS=5.0.*step_deadline_seconds=1500.0"),
    ],
)
def test_a_terminal_that_contradicts_the_running_desk_is_refused(
    here: Path, up: Up, environ: dict[str, str], message: str
) -> None:
    up.leave(snapshot(of(here)))
    with pytest.raises(SettingError, match=message) as error:
        of(here, **environ)
    assert "leave these unset here, or stop `desk up`" in error.value.remedy


def test_a_resume_may_name_another_broker_and_nothing_else(here: Path, up: Up) -> None:
    up.leave(snapshot(of(here)))
    own = {"DESK_HOME": str(here / "home"), "DESK_BROKER": "alpaca-paper"}
    assert load_settings(own, here, but=("broker",)).account == "alpaca-paper"
    with pytest.raises(SettingError, match=r"DESK_MAX_ORDER_NOTIONAL=5.0.*max_order_notional=10000.0"):
        load_settings({**own, "DESK_MAX_ORDER_NOTIONAL": "5"}, here, but=("broker",))


def test_the_endpoints_address_counts_without_its_login(here: Path, up: Up) -> None:
    endpoint = {"DESK_PROVIDER": "endpoint", "DESK_PROVIDER_URL": "https://user:hunter2@example.org/v1"}
    up.leave(snapshot(of(here, **endpoint)))
    with pytest.raises(SettingError, match=r"'https://other\.org/v1'.*'https://example\.org/v1'") as error:
        of(here, **{**endpoint, "DESK_PROVIDER_URL": "https://user:hunter2@other.org/v1"})
    assert "hunter2" not in str(error.value)


def test_the_live_switch_is_the_running_desks_but_not_for_what_sends_orders(here: Path, up: Up) -> None:
    up.leave(snapshot(of(here, TRADER_LIVE="1")))
    found = load({"DESK_HOME": str(here / "home")}, here)
    assert (found.settings.trader_live, found.origins["trader_live"].source) == (True, "desk up")
    assert load({"DESK_HOME": str(here / "home")}, here, own_switch=True).settings.trader_live is False
    with pytest.raises(SettingError, match=r"TRADER_LIVE=False.*trader_live=True"):
        of(here, TRADER_LIVE="0")


def test_a_halt_reads_what_it_can_and_names_the_rest(here: Path, up: Up) -> None:
    up.leave(snapshot(of(here)))
    wrong = {
        "DESK_MAX_ORDER_NOTIONAL": "much",
        "DESK_FOO": "1",
        "TRADER_LIVE": "true",
        "DESK_STEP_DEADLINE_SECONDS": "1",
    }
    environ = {"DESK_HOME": str(here / "home"), "DESK_LOG_LEVEL": "ERROR", "AUTONOMOUS_CONFIG_JSON": "{", **wrong}
    found, problems = load_for_halt(environ, here)
    assert (found.settings.home, found.settings.log_level) == (here / "home", "ERROR")
    assert (found.settings.max_order_notional, found.settings.trader_live) == (10_000, False)
    assert found.settings.step_deadline_seconds == 1500
    assert all(any(name in problem for problem in problems) for name in (*wrong, "AUTONOMOUS_CONFIG_JSON"))
    other, problems = load_for_halt({"DESK_HOME": str(here / "home"), "DESK_BROKER": "alpaca-paper"}, here)
    assert (other.settings.broker, other.settings.account, problems) == ("alpaca-paper", "alpaca-paper", [])
    up.file.write_text("{")
    assert "services.json" in load_for_halt({"DESK_HOME": str(here / "home")}, here)[1][0]
