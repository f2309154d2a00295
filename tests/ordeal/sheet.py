"""The figures of a benchmark as they are printed: aligned, each with its bound and whether it is met."""

from __future__ import annotations

from collections.abc import Sequence

from tests.ordeal import figures


class Sheet:
    """Printer of figures. It remembers which bounds were not met, for its last line. pages: it keeps pages' tables."""

    def __init__(self, *, pages: bool = False) -> None:
        self._pages = pages
        self._bounds = 0
        self._missed: list[str] = []
        self._head = ""

    @property
    def missed(self) -> list[str]:
        """The bounds that were not met so far, one line each."""
        return list(self._missed)

    def head(self, text: str) -> None:
        """Print the heading of the figures that follow."""
        self._head = text.strip().partition(" ")[0]
        print(text, flush=True)

    def line(self, name: str, figure: str, note: str = "") -> None:
        """Print a figure without a bound."""
        print(f"    {name:<42}{figure:>12}    {note}".rstrip(), flush=True)

    def keep(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Keep a table for its page, where that is asked for."""
        if self._pages:
            figures.keep(name, "make bench PAGES=1", columns=columns, rows=rows)

    def most(self, name: str, value: float, limit: float, unit: str = "", form: str = ".1f", note: str = "") -> None:
        """Print a figure that should not be more than a limit."""
        self._bound(name, f"{value:{form}}{unit}", f"at most {limit:{form}}{unit}", met=value <= limit, note=note)

    def least(self, name: str, value: float, limit: float, unit: str = "", form: str = ".1f", note: str = "") -> None:
        """Print a figure that should not be less than a limit."""
        self._bound(name, f"{value:{form}}{unit}", f"at least {limit:{form}}{unit}", met=value >= limit, note=note)

    def close(self) -> None:
        """Print how many bounds are met, and the names of the others."""
        missed = "".join(f"\n    not met: {name}" for name in self._missed)
        print(f"{self._bounds - len(self._missed)} of {self._bounds} bounds are met{missed}", flush=True)

    def _bound(self, name: str, figure: str, bound: str, *, met: bool, note: str) -> None:
        self._bounds += 1
        if not met:
            self._missed.append(f"{self._head} {name.strip()}: {figure}, {bound}")
        why = f" ({note})" if note else ""
        self.line(name, figure, f"{bound}{why}: {'met' if met else 'NOT MET'}")
