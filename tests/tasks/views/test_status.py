"""The status of a fleet, in which no `desk up` publishes settings: each worker is asked for its own."""

from __future__ import annotations

import json

from tests import zygote
from tests.stack import REPOSITORY, processes


def test_a_worker_with_other_settings_than_the_terminal_is_shown_with_them() -> None:
    own = {"TRADER_LIVE": "1", "DESK_MAX_ORDER_NOTIONAL": "5"}
    with processes() as made:
        made.workers("ops")
        made.workers("trade", environ=own)
        done = zygote.run(("status", "--json"), made.environ, REPOSITORY)
        off = zygote.run(
            ("status", "--json"), {**made.environ, "DESK_PREMARKET": "off", "DESK_MIDDAY": "off"}, REPOSITORY
        )
        shown = zygote.run(("status",), made.environ, REPOSITORY).stdout
        agreed = zygote.run(("status",), {**made.environ, **own, "TRADER_LIVE": "0"}, REPOSITORY).stdout
    found = json.loads(done.stdout)
    assert found["trouble"].keys() == {"queue screen", "queue research", "beat"}
    assert "start `desk worker research`" in found["trouble"]["queue research"]
    assert "midday, premarket will not start: start `desk beat`" in found["trouble"]["beat"]
    assert "beat" not in json.loads(off.stdout)["trouble"], "nothing is to be scheduled"
    assert done.returncode == 1, "a part of the desk does not answer"
    assert (found["running"], found["standing"]["live"]) == (False, False)
    ops, trade = found["workers"]
    assert (ops["differs"], ops["standing"]) == ({}, found["standing"])
    assert trade["differs"] == {"trader_live": True, "max_order_notional": 5.0}
    assert trade["standing"] == {**found["standing"], "live": True}
    lines = " ".join(shown.split())
    assert "has other settings: LIVE; broker paper;" in lines
    assert "; trader_live=true, max_order_notional=5" in lines
    assert lines.count("has other settings") == 1
    assert "trader_live=true turns" in " ".join(agreed.split()), "the limit agrees there"
