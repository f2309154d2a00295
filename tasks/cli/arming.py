"""Writing mandates: the only module that signs. `desk arm` runs it for a person; agents, tools and workers cannot.

The private key stays with the person that arms. By default it is in the data folder of `desk arm`, which workers of the
same user can read: DESK_MANDATE_KEY_FILE names a place of the person's own.
"""

from __future__ import annotations

import base64
import datetime as dt
import os
import stat
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from chordesk.models.answers import spelled
from chordesk.models.errors import SettingError, UsageError
from chordesk.models.home import make_folder
from chordesk.models.orders import ANY_SYMBOL, MandateTerms, signed_bytes
from chordesk.models.settings import Settings

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from chordesk.models.database.store import Store

MOST_HOURS = 7 * 24.0


def key_path(settings: Settings) -> Path:
    """Return the path of this user's signing key, which may not exist yet: in the data folder unless one is named."""
    return settings.mandate_key_file or settings.home / "mandate.key"


def signing_key(path: Path) -> Ed25519PrivateKey:
    """The key of a PEM file, made on first use. Raises SettingError for a file that others can read, or of another
    kind."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    remedy = f"`chmod 600 {path}`, or move the file away and let `desk arm` make a new key"
    try:
        if not path.exists():
            _make(path)
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise SettingError(f"the signing key {path} can be read by others", remedy=remedy)
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise SettingError(f"the signing key {path} cannot be read or made: {error.strerror}", remedy=remedy) from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise SettingError(f"{path} holds no private key that can be read", remedy=remedy) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise SettingError(f"{path} holds no Ed25519 key", remedy=remedy)
    return key


def _make(path: Path) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    make_folder(path.parent, 0o700)
    pem = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(pem)
        file.flush()
        os.fsync(file.fileno())


def public_text(key: Ed25519PrivateKey) -> str:
    return base64.b64encode(key.public_key().public_bytes_raw()).decode()


def arm(
    store: Store,
    settings: Settings,
    key: Ed25519PrivateKey,
    broker: str,
    max_notional: Decimal,
    max_orders: int,
    symbols: Sequence[str],
    hours: float,
    by: str,
    caution: bool = False,
) -> MandateTerms:
    from sqlmodel import func, select

    from chordesk.models.tables.columns import utcnow
    from chordesk.models.tables.orders import Mandate
    from chordesk.tools.orders import audit

    listed = checked_symbols(symbols)
    with store.session() as session:
        now = utcnow()
        terms = MandateTerms(
            version=(session.exec(select(func.max(Mandate.version))).one() or 0) + 1,
            broker=broker,
            max_notional=max_notional,
            max_orders=max_orders,
            symbols=listed,
            armed_at=now,
            expires_at=now + dt.timedelta(hours=hours),
            armed_by=by,
            caution=caution,
        )
        document = terms.document()
        signature = base64.b64encode(key.sign(signed_bytes(document))).decode()
        session.add(Mandate(version=terms.version, broker=broker, document=document, signature=signature, armed_at=now))
        session.flush()
        audit.record(session, settings, "armed", **terms.model_dump(mode="json"))
    return terms


def checked_symbols(symbols: Sequence[str]) -> tuple[str, ...]:
    from chordesk.tools.market.home import TRADED_REMEDY, untraded
    from chordesk.tools.market.universe import SYMBOL_RULE, is_symbol

    found = tuple(dict.fromkeys(spelled(part) for part in symbols if part.strip()))
    if found == (ANY_SYMBOL,):
        return found
    if strange := next(filter(None, map(untraded, found)), None):
        raise UsageError(f"--symbols {','.join(symbols)!r}: {strange}", remedy=TRADED_REMEDY)
    wrong = [symbol for symbol in found if not is_symbol(symbol)]
    if wrong or not found:
        raise UsageError(
            f"--symbols {','.join(symbols)!r}: {wrong[0] if wrong else 'nothing'} is no symbol",
            remedy=f"a symbol is {SYMBOL_RULE}; --symbols '{ANY_SYMBOL}' allows all",
        )
    return found
