"""Entry point of the command `desk`: loads the command's module, and turns errors into a line and an exit code.

Loading the whole desk costs seconds of CPU. So a command loads its own module alone, `desk --help` none of them, and
`desk ping`, which health checks run again and again, not even the parser.
"""

from __future__ import annotations

import gc
import sys

from tasks.cli import stdout
from tasks.cli.services import ping

# Exit codes: 0 done, 1 the answer is no (a failed check or run), 2 wrong use or setting, 128+n stopped by signal n.
WRONG_USE = 2


def main() -> None:
    with stdout.watched():
        if (asked := ping.asked(sys.argv[1:])) is not None:
            raise SystemExit(ping.ping(*asked))
        _run()


def _run() -> None:
    from models.errors import DeskError
    from tasks.cli.root import command_for
    from tasks.services.signals import StopRequested

    try:
        command_for(sys.argv[1:])()
    except DeskError as error:
        from tasks.cli.output import fail

        raise SystemExit(fail(error, WRONG_USE)) from None
    except StopRequested as stop:
        raise SystemExit(128 + stop.number) from None
    finally:
        # A last look for garbage over all that was imported costs 0.4 s of CPU, in each of a desk's processes at once.
        gc.freeze()


if __name__ == "__main__":
    main()
