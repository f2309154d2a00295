"""The tables of notifications come with the one row of the process that sends, and go without a trace."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy.exc import IntegrityError

from tests.models.migrations.old_database import insert, old_database


def test_a_notice_is_part_of_one_message_a_channel_and_a_downgrade_leaves_the_runs(tmp_path: Path) -> None:
    with old_database(f"sqlite:///{tmp_path / 'desk.db'}", "0024") as old:
        with old.engine.begin() as connection:
            insert(connection, "run", id="r")
        before = old.rows("run")
        old.upgrade("0025")
        assert [row["id"] for row in old.rows("notification_sender")] == [1]
        with old.engine.begin() as connection:
            insert(connection, "notification_part", channel="phone", notice_id="n", notification_id="one")
            insert(connection, "notification_part", channel="mail", notice_id="n", notification_id="two")
            insert(connection, "notice", id="n", key="k")
        for table, values in (
            ("notification_part", {"channel": "phone", "notice_id": "n", "notification_id": "three"}),
            ("notice", {"id": "m", "key": "k"}),
        ):
            with pytest.raises(IntegrityError), old.engine.begin() as connection:
                insert(connection, table, **values)
        old.downgrade("0024")
        assert old.rows("run") == before
