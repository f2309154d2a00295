"""desk risk codes: every code, what it refuses, and the limit in force."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chordesk.models.orders import DenialCode
from chordesk.models.settings import Settings
from chordesk.tools.risk.codes import CODES
from tests.tasks.cli.running import desk


def test_every_code_has_a_meaning_and_only_settings_that_exist() -> None:
    assert set(CODES) == set(DenialCode)
    for code, meaning in CODES.items():
        assert meaning.denies, code
        assert set(meaning.settings) <= set(Settings.model_fields), code
    # A limit that no code names could not be found.
    named = {name for meaning in CODES.values() for name in meaning.settings}
    assert {
        name for name in Settings.model_fields if name.startswith("max_") and name.endswith(LIMITS)
    } <= named | NOT_OF_ORDERS


LIMITS = ("_notional", "_share", "_loss", "_drawdown", "_rejections", "_collar", "_per_minute", "_per_day", "_hours")
NOT_OF_ORDERS = {"max_thread_age_hours"}


@pytest.mark.parametrize("given", ["123456.78", "1500000", "0.0000125", "10000"])
def test_a_limit_is_shown_as_it_is_in_force(given: str) -> None:
    (limit,) = CODES[DenialCode.NOTIONAL_PER_ORDER].limits(Settings(max_order_notional=given))
    assert limit == ("DESK_MAX_ORDER_NOTIONAL", given)


def test_the_command_lists_every_code_with_the_limit_in_force(tmp_path: Path) -> None:
    found = desk(tmp_path / "home", "risk", "codes", "--json", DESK_MAX_ORDER_NOTIONAL="123")
    assert found.returncode == 0, found.stderr
    rows = {row["code"]: row for row in json.loads(found.stdout)}
    assert set(rows) == {code.value for code in DenialCode}
    assert rows["notional_per_order"]["settings"] == {"DESK_MAX_ORDER_NOTIONAL": "123"}
    shown = desk(tmp_path / "home", "risk", "codes")
    assert shown.returncode == 0, shown.stderr
    assert all(code.value in shown.stdout for code in DenialCode)
    assert "DESK_MAX_DRAWDOWN=0.15" in shown.stdout
    line = f"no `desk up` runs on {tmp_path / 'home'}; by this terminal's settings: preview;"
    assert line in " ".join(shown.stdout.split()), "the workers of a fleet may have others"
