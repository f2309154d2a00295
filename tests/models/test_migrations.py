"""What migrations do to rows that are there already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from alembic import command
from sqlalchemy import Connection, create_engine, text

from models.store import _alembic, upgrade

AT = "2026-01-01 00:00:00.000000"


def insert(connection: Connection, table: str, **given: Any) -> None:
    """A row with what is given, and with something in every other column that must have a value."""
    columns = connection.execute(text(f"pragma table_info('{table}')")).all()
    plain = {"INTEGER": 0, "FLOAT": 0.0, "BOOLEAN": 0, "DATETIME": AT, "JSON": "[]"}
    needed = {row.name: plain.get(row.type.split("(")[0], "x") for row in columns if row.notnull and not row.dflt_value}
    values = {**needed, **given}
    names, marks = ", ".join(f'"{name}"' for name in values), ", ".join(f":{name}" for name in values)
    connection.execute(text(f'insert into "{table}" ({names}) values ({marks})'), values)


@pytest.mark.parametrize(
    ("fills", "opening"), [([], 900.0), ([("buy", 10, 20.0, 1.0), ("sell", 4, 25.0, 0.5)], 1001.5)]
)
def test_an_account_that_traded_began_with_what_its_fills_moved(
    tmp_path: Path, fills: list[tuple[str, float, float, float]], opening: float
) -> None:
    url = f"sqlite:///{tmp_path / 'desk.db'}"
    engine = create_engine(url)
    with engine.connect() as connection:
        config = _alembic(url)
        config.attributes["connection"] = connection
        command.upgrade(config, "0003")
        insert(connection, "account", name="paper", cash=900.0)
        insert(connection, "account", name="other", cash=5.0)
        insert(connection, "run", id="r")
        insert(connection, "step", id="s", run_id="r")
        insert(connection, "turn", id="t", run_id="r", step_id="s")
        insert(connection, "decision", id="d", run_id="r", step_id="s", turn_id="t")
        insert(connection, "order", id="o", run_id="r", decision_id="d", state="denied")
        for number, (side, quantity, price, commission) in enumerate(fills):
            figures = {"side": side, "quantity": quantity, "price": price, "commission": commission}
            insert(connection, "fill", id=str(number), order_id="o", account="paper", **figures)
        connection.commit()
    upgrade(url)
    with engine.connect() as connection:
        rows = connection.execute(text("select name, opening_cash from account")).all()
    assert {row.name: row.opening_cash for row in rows} == {"paper": opening, "other": 5.0}
