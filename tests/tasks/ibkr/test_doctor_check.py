"""The doctor's line of IB Gateway: it connects as any process of the desk does, and tells no account."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from chordesk.models.settings import Settings
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.doctor.check import Check, CheckContext
from chordesk.tasks.ibkr.doctor_check import gateway
from tests.fakes.tws import ACCOUNT, serving

pytest.importorskip("ib_async")


def checked(template: Path, home: Path, port: int = 1, **settings: Any) -> Check:
    home.mkdir(exist_ok=True)
    (home / "desk.db").write_bytes(template.read_bytes())
    made = Settings.model_validate(
        {"home": home, "market": "yahoo", "broker": "ibkr-paper", "ibkr_port": port, **settings}
    )
    desk = Desk(made, "doctor-test")
    try:
        return gateway(CheckContext(made, desk))
    finally:
        desk.close()


def test_the_gateway_is_asked_and_its_trouble_told(
    template_db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("yfinance")
    assert checked(template_db, tmp_path, broker="paper").detail == "not used: DESK_BROKER=paper"
    assert "IBKR_ACCOUNT" in checked(template_db, tmp_path).detail
    monkeypatch.setenv("IBKR_ACCOUNT", ACCOUNT)
    with serving() as tws:
        tws.positions["IBM"] = (Decimal(0), Decimal(0))  # closed today, and still told
        found = checked(template_db, tmp_path, tws.port)
        assert (found.status, found.detail) == ("ok", "the Gateway answers: 0 positions, 0 open orders")
        tws.cash["EUR"] = tws.cash["USD"]
        assert checked(template_db, tmp_path, tws.port).status == "warn"
        tws.accounts = ["DU1111111"]
        found = checked(template_db, tmp_path, tws.port)
        assert (found.status, ACCOUNT in f"{found.detail}{found.remedy}") == ("fail", False)
        assert "IBKR_ACCOUNT" in found.remedy
    assert "no IB Gateway answers" in checked(template_db, tmp_path, tws.port).detail
