"""What a US desk computes and books stays as it is when other exchanges and currencies come in."""

from __future__ import annotations

from pathlib import Path

from tests.golden import ledger


def test_clocks_answers_orders_and_fills_are_as_recorded(tmp_path: Path) -> None:
    """After a change that is meant: `python -m tests.golden.ledger`, and read the difference."""
    assert ledger.lines(tmp_path) == ledger.FILE.read_text(encoding="utf-8").splitlines()
