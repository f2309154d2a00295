"""Secrets with values that can be recognised, and the search for them in whatever a desk leaves behind."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import redis
from sqlalchemy import Engine, MetaData, select

from chordesk.agents.role_models import PROVIDER_KEYS
from chordesk.models.settings import Settings
from chordesk.models.settings.schema import BROKER_KEYS, HOLDINGS_KEYS
from tests.parts import HERE

# Digits and letters that nothing else has, and that no pattern of a key fits: what hides them has to know them.
MARK = "Quetzal77"
PROVIDERS = tuple(sorted({name for names in PROVIDER_KEYS.values() for name in names}))
# The names of settings and variables with a secret each.
# By name what comes before the secret of a messenger's token.
BOTS = {
    "messengers_telegram_token": "123456789:", "messengers_slack_bot_token": "xoxb-1-",
    "messengers_slack_app_token": "xapp-1-",
}  # fmt: skip
OF_FEATURES = tuple(BOTS) if "messengers" in HERE else ()
SETTINGS = (
    "provider_key", "api_token", "sec_identity", "notify_channels", "flower_auth", "message_key", *OF_FEATURES,
)  # fmt: skip
VARIABLES = (*BROKER_KEYS, *HOLDINGS_KEYS, *Settings.DATA_CREDENTIALS, *PROVIDERS)
PASSWORDS = ("redis", "postgres", "trace", "flower")


def canary(name: str) -> str:
    """Return the value of a secret, the same for each test."""
    return f"{name.replace('_', '').lower()}{MARK}x"


CANARIES: Mapping[str, str] = {name: canary(name) for name in (*SETTINGS, *VARIABLES, *PASSWORDS)}

# An account at another broker: what of it no model is told, and nothing but its own tables keeps.
BOOK: Mapping[str, str] = {
    "account": "Quetzal77savings", "number": "QZL4410977", "fund": "Quetzal77fund", "quantity": "7731904",
    "value": "154638", "cost": "9917733", "value in thousands": "154,638", "cost in thousands": "9,917,733",
}  # fmt: skip
BOOK_FILE = (
    "symbol,isin,name,quantity,price,value,cost,currency,account number,as_of\n"
    f",LU1829221024,{BOOK['fund']},{BOOK['quantity']}.5,0.02,{BOOK['value']}.09,{BOOK['cost']},USD,{BOOK['number']},2010-01-05\n"
    f"KO,,Coca-Cola,0.{BOOK['quantity']},54.5,42.14,{BOOK['cost']},USD,{BOOK['number']},2010-01-05\n"
)


def variables() -> dict[str, str]:
    """Return the environment of a desk with all of them, without addresses that hold a password."""
    own = {f"DESK_{name.upper()}": CANARIES[name] for name in ("provider_key", "api_token", "message_key")}
    identity = {"DESK_SEC_IDENTITY": f"Ada {CANARIES['sec_identity']} ada@example.org"}
    channels = {"DESK_NOTIFY_CHANNELS": f"desk=json://desk:{CANARIES['notify_channels']}@127.0.0.1:9/"}
    login = {"DESK_FLOWER_AUTH": f"desk:{CANARIES['flower_auth']}"}
    bots = {f"DESK_{name.upper()}": f"{BOTS[name]}{CANARIES[name]}" for name in OF_FEATURES}
    return {**own, **identity, **channels, **login, **bots, **{name: CANARIES[name] for name in VARIABLES}}


def spellings(value: str) -> Iterator[bytes]:
    """Yield a value as it is and as base64 has it, wherever in a longer text it begins."""
    yield value.encode()
    if len(value) < 12:
        return  # what is left of a few signs is in many texts
    for before in range(3):
        coded = base64.b64encode(b"\0" * before + value.encode())
        yield coded[4 if before else 0 : -4].rstrip(b"=")  # the first and last signs depend on what is around it


def seen(name: str, data: bytes, canaries: Mapping[str, str] = CANARIES) -> list[str]:
    """Return which canaries are in some bytes, each with its place."""
    found = []
    for called, value in canaries.items():
        for spelling in spellings(value):
            if (at := data.find(spelling)) >= 0:
                around = data[max(0, at - 60) : at + len(spelling) + 20].decode(errors="replace")
                found.append(f"{name}: {called} in ...{around!r}")
                break
    return found


def in_files(folder: Path, but: Iterable[Path] = (), canaries: Mapping[str, str] = CANARIES) -> list[str]:
    """Return which canaries are in the files of a folder."""
    left_out = {path.resolve() for path in but}
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.resolve() not in left_out:
            found += seen(str(path.relative_to(folder)), path.read_bytes(), canaries)
    return found


def in_database(engine: Engine, canaries: Mapping[str, str] = CANARIES, but: str = "nothing") -> tuple[list[str], int]:
    """Return which canaries are in the rows of all tables, packed ones too, and the number of rows. but: what the
    names of tables begin with that are left out."""
    found, rows = [], 0
    metadata = MetaData()
    metadata.reflect(engine)
    with engine.connect() as connection:
        for table in (one for one in metadata.sorted_tables if not one.name.startswith(but)):
            for row in connection.execute(select(table)):
                rows += 1
                for column, value in row._mapping.items():
                    found += seen(f"{table.name}.{column}", _bytes(value), canaries)
    return found, rows


def in_redis(client: redis.Redis, canaries: Mapping[str, str] = CANARIES) -> tuple[list[str], int]:
    """Return which canaries are in the keys and values of a Redis, and the number of keys."""
    found, keys = [], 0
    for key in set(client.scan_iter(count=500)):  # beside a desk at work Redis may give a key twice
        keys += 1
        kind = client.type(key).decode()
        read: dict[str, Any] = {
            "string": client.get,
            "list": lambda key: client.lrange(key, 0, -1),
            "hash": client.hgetall,
            "set": client.smembers,
            "zset": lambda key: client.zrange(key, 0, -1),
            "stream": client.xrange,
            "none": lambda _key: None,  # it has expired meanwhile
        }
        found += seen(f"redis {key.decode(errors='replace')}", key + repr(read[kind](key)).encode(), canaries)
    return found, keys


def _bytes(value: Any) -> bytes:
    if isinstance(value, memoryview | bytes):
        try:
            return zlib.decompress(bytes(value))
        except zlib.error:
            return bytes(value)
    return str(value).encode()
