from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chordesk.models.database.store import Store
from chordesk.testing.broker import Line


@pytest.fixture
def far(store: Store, tmp_path: Path) -> Iterator[Any]:
    pytest.importorskip("ib_async")
    from tests.tools.ibkr.far_side import IbkrFar

    with IbkrFar(store, tmp_path) as far_side:
        yield far_side


@pytest.fixture
def line(far: Any) -> Line:
    return Line(far, far.connect())
