"""A process with the connection and a stream, as the trade worker: `python -m tests.tools.ibkr.listener PORT HOME`."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any, cast

from chordesk.models.database.store import Store
from chordesk.testing.broker import Updates
from tests.fakes.tws import Tws
from tests.tools.ibkr.far_side import built

if __name__ == "__main__":
    port, home = int(sys.argv[1]), Path(sys.argv[2])
    store = Store(f"sqlite:///{home / 'unused.db'}")
    cast("Any", built(Tws(port=port), store, home)).listen(Updates())
    threading.Event().wait()
