"""Orders that were written before they had a time in force."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, text

from models.database.store import _alembic
from tests.models.migrations.test_migrations import insert


def test_an_order_of_an_older_version_is_a_day_order_that_protects_nothing(tmp_path: Path) -> None:
    engine = create_engine(url := f"sqlite:///{tmp_path / 'desk.db'}")

    def migrate(change: Callable[[Config, str], None], revision: str) -> None:
        with engine.connect() as connection:
            config = _alembic(url)
            config.attributes["connection"] = connection
            change(config, revision)
            connection.commit()

    def rows() -> list[dict[str, Any]]:
        with engine.connect() as connection:
            return [dict(row) for row in connection.execute(text('select * from "order"')).mappings()]

    migrate(command.upgrade, "0011")
    with engine.begin() as connection:
        insert(connection, "run", id="r")
        insert(connection, "step", id="s", run_id="r")
        insert(connection, "decision", id="d", run_id="r", step_id="s")
        insert(connection, "order", id="o", run_id="r", decision_id="d", state="denied")
        insert(connection, "fill", id="f", order_id="o", account="paper")
    before = rows()
    migrate(command.upgrade, "0012")
    added = {"stop_price": None, "trail_percent": None, "time_in_force": "day", "protects": None}
    assert rows() == [{**before[0], **added}]
    migrate(command.downgrade, "0011")
    assert rows() == before
    with engine.connect() as connection:
        assert connection.execute(text("select order_id from fill")).scalar_one() == "o"
    engine.dispose()
