"""desk risk codes: every code, what it refuses, and the limit in force."""

from __future__ import annotations

import pytest

from chordesk.models.orders import DenialCode
from chordesk.models.settings import Settings
from chordesk.tools.risk.codes import CODES


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
