"""What one desk at a time may have on this machine: an id of a data folder, and an account at a broker.

A lock of the user's on a file outside all data folders, which the kernel frees with its process. Desks of other
machines, users and containers are not seen.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from chordesk.models.errors import UsageError
from chordesk.models.home import Identity, claim_text, claims_folder
from chordesk.models.settings import Settings
from chordesk.models.settings.variables import secret


@contextmanager
def held(identity: Identity, settings: Settings, environ: Mapping[str, str], *, trades: bool) -> Iterator[None]:
    """Hold the id of the data folder and, for a desk that trades, its account. Raises UsageError where another desk of
    this user has one of them."""
    with ExitStack() as locks:
        copy = "two data folders with one id: make one a desk of its own with `desk db renew`, or stop the other desk"
        locks.enter_context(
            _lock(f"home-{identity.id}", f"the id {identity.id} of {identity.path}", copy, identity.path)
        )
        if trades and (account := _account(settings, environ)) is not None:
            told = f"the account of {settings.broker} whose key is set here"
            alone = "give this desk an account of its own, or stop the other desk: neither knows of the other's orders"
            locks.enter_context(_lock(account, told, alone, identity.path))
        yield


def _account(settings: Settings, environ: Mapping[str, str]) -> str | None:
    """Return a name for the broker's account that tells nothing of its key; None for books of the desk's own."""
    names = settings.sends_to.credentials
    key = secret(environ, names[0]) if names else None
    return f"account-{settings.broker}-{hashlib.sha256(key.encode()).hexdigest()[:16]}" if key else None


@contextmanager
def _lock(name: str, what: str, remedy: str, home: str) -> Iterator[None]:
    place = claims_folder()
    place.mkdir(mode=0o700, exist_ok=True)
    found = place.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise UsageError(
            f"{place} is not a folder of this user", remedy="remove it, or set TMPDIR to a folder of yours"
        )
    with (place / f"{name}.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            other = file.read(4096).strip() or "another desk"
            raise UsageError(f"{what} is in use by {other}", remedy=remedy) from None
        file.seek(0)
        file.truncate()
        file.write(claim_text(home))
        file.flush()
        yield
