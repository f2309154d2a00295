"""The person at the terminal: questions, each with the flag that answers it in a script."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import typer

from chordesk.models.errors import DeskError, UsageError

Read = Callable[[str], str]  # what was typed, as it is used; raises DeskError for what cannot be


class Person:
    """Asks at the terminal. Without one a question is a UsageError that names its flag."""

    def __init__(self, terminal: bool | None = None) -> None:
        self.terminal = sys.stdin.isatty() and sys.stdout.isatty() if terminal is None else terminal

    def ask(self, question: str, flag: str, default: str | None = None, read: Read = str.strip) -> str:
        """Ask until there is an answer that `read` takes. Raises UsageError without a terminal."""
        self._require(flag)
        found: str = typer.prompt(question, default=default, value_proc=lambda text: _read(text, read))
        return found

    def choose(self, question: str, flag: str, options: Sequence[str], default: int | None = None) -> int:
        """Show the options by number, and return the place of the chosen one."""
        self._require(flag)
        print(question)
        for number, option in enumerate(options, 1):
            print(f"  {number}  {option}")
        shown = str(default + 1) if default is not None else None
        return int(self.ask("Number", flag, shown, lambda text: _number(text, len(options)))) - 1

    def secret(self, question: str, flag: str, read: Read) -> str:
        """Ask without showing what is typed; Enter alone is an empty answer."""
        self._require(flag)
        found: str = typer.prompt(
            question, default="", show_default=False, hide_input=True, value_proc=lambda text: _read(text, read)
        )
        return found

    def agrees(self, question: str, default: bool) -> bool:
        """Ask for yes or no; without a terminal the default is the answer."""
        return typer.confirm(question, default=default) if self.terminal else default

    def _require(self, flag: str) -> None:
        if not self.terminal:
            raise UsageError(f"{flag} is missing, and there is no terminal to ask at", remedy=f"add {flag}")


def _read(text: str, read: Read) -> str:
    try:
        return read(text.strip())
    except DeskError as error:
        raise typer.BadParameter(str(error)) from None


def _number(text: str, most: int) -> str:
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise UsageError(f"{text!r} is none of the numbers", remedy=f"1 to {most}")
    return text
