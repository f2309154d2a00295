"""Entry point of the command `desk`: loads the command's module, and turns errors into a line and an exit code.

Loading the whole desk costs seconds of CPU. So a command loads its own module alone, `desk --help` none of them, and
`desk ping`, which health checks run again and again, and `desk --version` not even the parser.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from chordesk.tasks.cli import ping
from chordesk.tasks.cli.standard_output import watched

if TYPE_CHECKING:
    from chordesk.models.errors import DeskError

# Exit codes: 0 done, 1 the answer is no or the output is lost, 2 wrong use or setting, 128+n stopped by signal n.
WRONG_USE = 2


def main() -> None:
    os.umask(0o077)  # what the desk makes is its owner's alone, as is what its children make
    # Loading makes many objects that stay, some 180,000: collecting them took a tenth of a command's time or more.
    gc.set_threshold(200_000)
    _heed_ctrl_c(sys.argv[1:])
    with watched():
        if (asked := ping.asked(sys.argv[1:])) is not None:
            raise SystemExit(ping.ping(*asked))
        if sys.argv[1:] == ["--version"]:
            from chordesk.tasks.cli import version

            print(version.line())
            return
        from chordesk.tasks.cli import ask_running_desk  # a health check has no use for it

        if (code := ask_running_desk.answer(sys.argv[1:])) is None:
            code = ended(_run)
        raise SystemExit(code)


def _heed_ctrl_c(arguments: Sequence[str]) -> None:
    """End a `desk up` by SIGINT while it still loads, too: a shell makes what a script starts in the background ignore
    it, and `signals.raised` comes seconds later on a busy machine."""
    if arguments[:1] == ["up"] and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, _end)


def _end(number: int, _frame: object) -> None:
    signal.signal(number, signal.SIG_IGN)  # a second one must not disturb the end
    raise SystemExit(128 + number)


def _interrupt(number: int, _frame: object) -> None:
    """As Python's own handler. By its trace in the error a person's Ctrl-C differs from what a package raises."""
    raise KeyboardInterrupt


def _run() -> None:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    from chordesk.tasks.cli.root import command_for

    command = command_for(sys.argv[1:])
    if signal.getsignal(signal.SIGINT) is _interrupt:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command()


def ended(command: Callable[[], Any]) -> int:
    """Return the exit code of a command, and print what it fails with."""
    from chordesk.models.errors import DeskError
    from chordesk.tasks.services.stop_signals import StopRequested

    try:
        code = command()
    except DeskError as error:
        from chordesk.tasks.cli.output import fail

        return fail(error, WRONG_USE)
    except StopRequested as stop:
        return 128 + stop.number
    except KeyboardInterrupt as error:
        print(" ".join(("stopped by Ctrl-C", *getattr(error, "__notes__", ()))), file=sys.stderr)
        return 128 + signal.SIGINT
    except (Exception, SystemExit) as error:
        if (found := _said(error)) is None:
            raise
        from chordesk.tasks.cli.output import fail

        return fail(found, WRONG_USE)
    return code if isinstance(code, int) else 0


def _said(error: Exception | SystemExit) -> DeskError | None:
    """Return what a person is told of an error that is not the desk's own, by the database or in the code of a package;
    None of any other."""
    from chordesk.models import features

    if isinstance(error, SystemExit):  # so `desk --help` ends, too
        return features.blamed(error, may_exit=True)
    from chordesk.models.database.failures import as_desk_error  # some commands never open the database

    return as_desk_error(error) or features.blamed(error, may_exit=True)


if __name__ == "__main__":
    main()
