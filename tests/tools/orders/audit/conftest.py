from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.orders.log_desk import LogDesk


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[LogDesk]:
    made = LogDesk(tmp_path / "home")
    yield made
    made.store.close()
