"""Orders of before they had legs, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError

from tests.models.migrations.old_database import OldDatabase, insert, old_database
from tests.postgres import Server

LEGS = '[{"contract":"AAA100918P00090000","side":"sell","ratio":1}]'
EXIT = {"state": "submitted", "action": "reduce"}


def order(old: OldDatabase, id_: str, **columns: Any) -> None:
    with old.engine.begin() as connection:
        insert(connection, "order", **{"id": id_, "run_id": "r", "decision_id": "d", "account": "paper", **columns})


def rows(old: OldDatabase) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in old.rows("order")}


def orders_get_legs_and_lose_them(url: str) -> None:
    """An order with a fill and a denied one; then one with legs, and one that reduces without a verdict. The database
    is empty."""
    with old_database(url, "0012") as old:
        with old.engine.begin() as connection:
            insert(connection, "run", id="r")
            insert(connection, "step", id="s", run_id="r")
            insert(connection, "decision", id="d", run_id="r", step_id="s")
            insert(connection, "candidate", id="c", run_id="r")
            insert(connection, "verdict", id="v", run_id="r", candidate_id="c")
        order(old, "bought", ordinal=0, state="filled", action="open", verdict_id="v", stop_price=92.5)
        order(old, "denied", ordinal=1, state="denied", action="reduce")
        with old.engine.begin() as connection:
            insert(connection, "fill", id="f", order_id="bought", account="paper")
        with pytest.raises(IntegrityError, match="ck_order_verdict"):
            order(old, "sold", ordinal=2, **EXIT)
        before = rows(old)
        old.upgrade("0013")
        assert rows(old) == {id_: {**row, "legs": None} for id_, row in before.items()}
        order(old, "sold", ordinal=2, **EXIT)
        order(old, "package", ordinal=3, state="filled", action="open", verdict_id="v", legs=LEGS)
        with pytest.raises(IntegrityError, match="ck_order_verdict"):
            order(old, "bare", ordinal=4, state="submitted", action="open")
        # A version that asks every order but a close for a verdict gets the reduction as one.
        old.downgrade("0012")
        after = rows(old)
        assert {id_: after[id_] for id_ in before} == before
        assert (after["sold"]["action"], after["package"]["verdict_id"]) == ("close", "v")
        assert "legs" not in after["package"]
        assert old.value("select order_id from fill") == "bought"
        old.upgrade("head")
        assert rows(old).keys() == after.keys()


def test_orders_of_before_they_had_legs_are_kept(tmp_path: Path) -> None:
    orders_get_legs_and_lose_them(f"sqlite:///{tmp_path / 'desk.db'}")


@pytest.mark.postgres
def test_orders_of_before_they_had_legs_are_kept_on_postgres(postgres: Server) -> None:
    orders_get_legs_and_lose_them(postgres.empty())
