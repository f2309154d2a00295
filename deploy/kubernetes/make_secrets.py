"""Prints the secrets of a desk on Kubernetes, for `kubectl create -f -`: each pod's own, and no more than it needs.

    DESK_PROVIDER_URL=... DESK_PROVIDER_KEY=... python3 deploy/kubernetes/make_secrets.py small | kubectl create -f -

Values come from the environment, so that none is in a file or among a command's arguments. What a small desk can make
up by itself, the passwords of its Postgres and Redis, is random; so are the key of messages and the API's token where
none is given. A fleet brings DESK_DATABASE_URL and DESK_REDIS_URL, and DESK_MIGRATE_URL where another login owns the
schema. DESK_NOTIFY_CHANNELS has the channels of notifications, BROKER_KEYS the names of further keys of a broker, which
the trade worker gets. `create` refuses to replace what is there: a new password would shut the desk out of its own
database.
Standard library only: the machine that runs it needs no desk.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Mapping
from typing import Any

OVERLAYS = ("small", "fleet")
NAMESPACE = "desk"
MOUNTED = "/run/secrets/desk"
OWNER, SERVICE = "desk_schema", "desk_rows"  # logins of a small desk's Postgres, which deploy/roles.py makes
# The settings in the file desk.toml of each pod.
PLACES = ("database_url", "redis_url", "message_key", "provider_url")
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "migrate": ("database_url", "redis_url", "provider_url"),
    "research": (*PLACES, "provider_key", "sec_identity"),
    "ops": PLACES,
    "trade": PLACES,
    "beat": PLACES,
    "api": (*PLACES, "api_token"),
    "notify": (
        "database_url",
        "provider_url",
        "notify_channels",
        "messengers_telegram_token",
        "messengers_slack_bot_token",
        "messengers_slack_app_token",
    ),
}
NEEDS = {"notify": "DESK_NOTIFY_CHANNELS"}  # a pod that has nothing to do without it
# Keys that no setting holds, by pod: each is a file, which a variable names.
# generated: names of brokers' keys
OF_FEATURES: tuple[str, ...] = ("IBKR_ACCOUNT",)
# end
ORDERS = ("ALPACA_API_KEY", "ALPACA_SECRET_KEY", *OF_FEATURES)
DATA = ("ALPACA_DATA_API_KEY", "ALPACA_DATA_SECRET_KEY")
PROVIDERS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "MISTRAL_API_KEY",
    "DEEPSEEK_API_KEY",
    "GROQ_API_KEY",
    "OPENROUTER_API_KEY",
    "XAI_API_KEY",
)
KEYS: Mapping[str, tuple[str, ...]] = {"research": (*DATA, *PROVIDERS), "trade": (*ORDERS, *DATA)}
# What the desk and its schedule use of Redis, and not what changes the server. Nobody can be the default user, but it
# may do everything: Redis 7.0 reads the transactions of its own append-only file as that user.
ACL = (
    "user default off resetpass allkeys allchannels +@all\n"
    "user desk on >{password} ~* &* +@all -@admin -@dangerous +info +keys +flushdb\n"
)


def main(arguments: list[str], environ: Mapping[str, str]) -> int:
    """Print the secrets and return 0, or print what is missing and return 2."""
    if len(arguments) != 1 or arguments[0] not in OVERLAYS:
        print(f"usage: make_secrets.py {'|'.join(OVERLAYS)}; {' '.join(arguments)!r} is neither", file=sys.stderr)
        return 2
    wanted = ("DESK_PROVIDER_URL",) if arguments[0] == "small" else ("DESK_DATABASE_URL", "DESK_REDIS_URL")
    missing = [name for name in wanted if not environ.get(name)]
    if missing:
        print(f"{' and '.join(missing)} must be set in the environment, then run this again", file=sys.stderr)
        return 2
    made = small(environ) if arguments[0] == "small" else fleet(environ)
    print(json.dumps({"apiVersion": "v1", "kind": "List", "items": made}, indent=2))
    for role, name in NEEDS.items():
        if not environ.get(name):
            waits = f"there is no Secret desk-{role}, and its pod waits for one"
            print(f"{name} is not set: {waits}; or scale deploy/desk-{role} to 0", file=sys.stderr)
    return 0


def small(environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the secrets of a desk with its own Postgres and Redis, with new passwords. POSTGRES_PASSWORD: of a
    Postgres that is there already."""
    admin, redis = environ.get("POSTGRES_PASSWORD") or secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    logins = {"desk": admin, **{user: secrets.token_urlsafe(24) for user in (OWNER, SERVICE)}}
    urls = {user: f"postgresql+psycopg://{user}:{password}@postgres:5432/desk" for user, password in logins.items()}
    own = {
        "DESK_DATABASE_URL": urls[SERVICE],
        "DESK_MIGRATE_URL": urls[OWNER],
        "DESK_REDIS_URL": f"redis://desk:{redis}@redis:6379/0",
    }
    services = [
        secret("postgres", {"password": admin}),
        secret("desk-roles", dict(zip(("admin", "owner", "service"), urls.values(), strict=True))),
        secret("redis", {"users.acl": ACL.format(password=redis)}),
    ]
    return [*services, *of_the_desk({**environ, **own})]


def fleet(environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the secrets of a desk with servers elsewhere. KEDA_CONNECTION: address of a user that may only read the
    tables step and run; else the desk's own."""
    plain = environ["DESK_DATABASE_URL"].replace("postgresql+psycopg://", "postgresql://", 1)
    connection = environ.get("KEDA_CONNECTION") or plain
    return [*of_the_desk(environ), secret("desk-demand", {"connection": connection})]


def of_the_desk(environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the secret of each of the desk's pods: its settings as desk.toml, and its keys, a file each; and the
    variables that name these files."""
    made = {f"DESK_{name}": secrets.token_urlsafe(32) for name in ("API_TOKEN", "MESSAGE_KEY")}
    environ = {**made, **environ}
    owner = {**environ, "DESK_DATABASE_URL": environ.get("DESK_MIGRATE_URL") or environ["DESK_DATABASE_URL"]}
    found = []
    for role, names in SETTINGS.items():
        if role in NEEDS and not environ.get(NEEDS[role]):
            continue
        more = environ.get("BROKER_KEYS", "").split() if role == "trade" else ()
        keys = [name for name in (*KEYS.get(role, ()), *more) if environ.get(name)]
        given = owner if role == "migrate" else environ
        files = {"desk.toml": toml(given, *names), **{name.lower(): environ[name] for name in keys}}
        found.append(secret(f"desk-{role}", files))
        if keys:
            paths = {f"{name}_FILE": f"{MOUNTED}/{name.lower()}" for name in keys}
            found.append(secret(f"desk-{role}-variables", paths))
    return found


def toml(environ: Mapping[str, str], *names: str) -> str:
    """Return these settings as the environment has them, one a line. A JSON string is one of TOML too."""
    given = {name: environ.get(f"DESK_{name.upper()}") for name in names}
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in given.items() if value)


def secret(name: str, files: Mapping[str, str]) -> dict[str, Any]:
    """Return a secret whose keys are files, or variables."""
    about = {"name": name, "namespace": NAMESPACE, "labels": {"app.kubernetes.io/part-of": "chordesk"}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": about, "type": "Opaque", "stringData": dict(files)}


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:], os.environ))
