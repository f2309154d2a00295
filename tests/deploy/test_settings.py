"""Settings of a fleet: each line of `.env` reaches every service that compose.yaml starts, or is refused by name."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from chordesk.models.database.store import Store
from chordesk.models.errors import SettingError, UsageError
from chordesk.models.settings import Settings
from chordesk.models.settings.schema import SECRETS
from chordesk.models.settings.sources import load_settings
from chordesk.tasks import running_processes
from chordesk.tasks.reading.setting_values import shown
from chordesk.tasks.running_processes import require_home
from chordesk.tasks.services import fleet_settings
from tests import zygote
from tests.deploy.test_compose import filled
from tests.parts import HERE
from tests.stack import REPOSITORY, Processes, processes, wait_for

SERVICES: dict[str, Any] = yaml.safe_load((REPOSITORY / "compose.yaml").read_text("utf-8"))["services"]
FIXED = dict(
    one.removeprefix("--fixed=").partition("=")[::2]
    for one in SERVICES["migrate"]["command"]
    if one.startswith("--fixed=")
)
STAYING = ("research", "ops", "trade", "beat", "flower", "api", "notify")
MOUNTED = "/run/secrets/"
KEYS = {
    "DESK_PROVIDER_KEY": "sk-of-the-endpoint", "DESK_SEC_IDENTITY": "Ada Lovelace ada@example.org",
    "ALPACA_API_KEY": "one", "ALPACA_SECRET_KEY": "two", "ALPACA_DATA_API_KEY": "three",
    "ALPACA_DATA_SECRET_KEY": "four",
    **(
        {
            "DESK_MESSENGERS_TELEGRAM_TOKEN": "123456789:AAbot-token-of-your-own",
            "DESK_MESSENGERS_SLACK_BOT_TOKEN": "xoxb-1234567890-bot-token-of-your-own",
            "DESK_MESSENGERS_SLACK_APP_TOKEN": "xapp-1-A0123456789-app-token-of-your-own",
        }
        if "messengers" in HERE
        else {}
    ),
}  # fmt: skip
# Where the example names what is not here, or does not go with the others.
INSTEAD = {"graphs": "tests.toy.graphs", "research_roles": "quick,risk,catalyst"}


def dotenv(folder: Path) -> dict[str, str]:
    """A `.env` with every setting at a value that is not its default."""
    fields = Settings.model_fields
    own = {"telemetry_file": str(folder / "telemetry.jsonl"), **INSTEAD}
    given = {f"DESK_{name.upper()}": own.get(name) or field.examples[0] for name, field in fields.items()}  # type: ignore[index]
    left_out = {*FIXED, *(name.removesuffix("_FILE") for name in FIXED), "DESK_TRADER_LIVE"}
    left_out.add("DESK_MASK")  # refuses web search, venues and graphs, which the others switch on
    files = {f"{name}_FILE": f"{MOUNTED}{name.removeprefix('DESK_').lower()}" for name in KEYS}
    return {name: value for name, value in given.items() if name not in left_out and name not in KEYS} | files


def environment(service: str, given: dict[str, str]) -> dict[str, str]:
    """The variables that compose gives a service: its own go over those of `.env`."""
    return {**given, **filled(SERVICES[service]["environment"], **given)}


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Processes]:
    with processes() as desk:
        secrets = tmp_path / "secrets"
        secrets.mkdir()
        own = {
            "redis_url": desk.environ.pop("DESK_REDIS_URL"), "database_url": desk.settings.database,
            "message_key": "fedcba9876543210fedcba9876543210",
            "api_token": "0123456789abcdef0123456789abcdef", "flower_auth": "desk:password",
            "notify_channels": "phone=json://127.0.0.1:1",
            **{name.removeprefix("DESK_").lower(): value for name, value in KEYS.items()},
        }  # fmt: skip
        for name, text in own.items():
            (secrets / name).write_text(text, encoding="utf-8")
        yield desk


def started(desk: Processes, service: str, given: dict[str, str], folder: Path) -> None:
    """Start the entry command of a service with its environment, with folders of the test in place of the mounts."""
    home = folder / service
    home.mkdir()
    found = {name: value.replace(MOUNTED, f"{folder}/secrets/") for name, value in environment(service, given).items()}
    found |= {"DESK_HOME": str(home), "DESK_METRICS_PORT": "0"}
    kept = {name: value for name, value in desk.environ.items() if not name.startswith("DESK_")}
    program, *arguments = SERVICES[service]["command"]
    assert program == "desk"
    if service == "api":
        arguments = [*arguments[:-1], "0"]
    if service == "flower":
        arguments = arguments[:-4]
    with (desk.home / f"{service}.log").open("ab") as log:
        desk.running[service] = zygote.start(arguments, {**kept, **found}, folder, log.fileno())


@pytest.mark.long
def test_every_setting_of_the_file_is_read_back_from_each_service(fleet: Processes, tmp_path: Path) -> None:
    given = dotenv(tmp_path)
    for service in STAYING:
        started(fleet, service, given, tmp_path)
    database = (tmp_path / "secrets" / "database_url").read_text("utf-8")
    with closing(Store(database)) as store:

        def here() -> dict[str, dict[str, Any]]:
            return {one.name.partition("@")[0].partition("-")[0]: one.settings for one in running_processes.here(store)}

        wait_for(lambda: set(here()) == set(STAYING), "every service says its settings")
        found = here()
    files = {f"{name}_FILE" for name in KEYS}
    wanted = load_settings({name: value for name, value in given.items() if name not in files}, tmp_path)
    left_out = {*SECRETS, "home", "metrics_host", "metrics_port", "api_host", "api_port", "trader_live", "mask"}
    for name in Settings.model_fields.keys() - left_out:
        value = shown(name, getattr(wanted, name), wanted)
        assert getattr(wanted, name) != Settings.model_fields[name].get_default(call_default_factory=True), name
        assert {service: one[name] for service, one in found.items()} == dict.fromkeys(STAYING, value), name
    holders = {name: {service for service, one in found.items() if one[name] is not None} for name in SECRETS}
    everyone = set(STAYING)
    assert holders == {
        "database_url": everyone, "redis_url": everyone - {"notify"}, "provider_key": {"research"},
        "message_key": everyone - {"notify"}, "sec_identity": {"research"}, "api_token": {"api"},
        "flower_auth": {"flower"}, "notify_channels": {"notify"},
        **{name: {"notify"} for name in SECRETS if name.startswith("messengers_")},
    }  # fmt: skip
    assert {one[name] for one in found.values() for name in SECRETS} == {None, "set"}
    asked = {**fleet.environ, "DESK_DATABASE_URL": database, "DESK_HOME": str(tmp_path / "ops")}
    answer = zygote.run(["config", "--running", "--json"], asked, tmp_path)
    (row,) = [one for one in json.loads(answer.stdout) if one["name"] == "approval"]
    assert row["value"] == "above:5000"
    assert len(row["source"].split(", ")) == len(STAYING)


GOOD = {"DESK_PROVIDER_URL": "http://model:1/v1", "DESK_PROVIDER": "endpoint"}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"DESK_APROVAL": "manual"}, ("DESK_APROVAL", "write DESK_APPROVAL")),
        ({"DESK_APPROVAL": "maybe"}, ("DESK_APPROVAL='maybe'", "auto, manual and above:NOTIONAL")),
        ({"DESK_PROVIDER_KEY": "sk-mine"}, ("DESK_PROVIDER_KEY has a secret in clear", ".secrets/provider_key")),
        ({"ALPACA_API_KEY": "mine"}, ("ALPACA_API_KEY has a secret in clear", "alpaca_api_key")),
        ({"OPENAI_API_KEY": "mine"}, ("OPENAI_API_KEY has a secret in clear", "openai_api_key")),
        ({"DESK_REDIS_URL": "redis://:mine@r/0"}, ("DESK_REDIS_URL has a secret in clear", "redis_url")),
        (
            {"DESK_PROVIDER_URL": "https://h/v1?api_key=mine"},
            ("DESK_PROVIDER_URL=", "in clear", "DESK_PROVIDER_KEY_FILE"),
        ),
        ({"DESK_BLOB_URL": "s3://key:mine@bucket"}, ("DESK_BLOB_URL=s3://********@bucket", "in clear")),
        ({"AUTONOMOUS_CONFIG_JSON": '{"provider_key": "mine"}'}, ("AUTONOMOUS_CONFIG_JSON: provider_key", "in clear")),
        ({"DESK_TELEMETRY_FILE": "/proc/none/events"}, ("DESK_TELEMETRY_FILE=/proc/none/events", "written to")),
        ({"DESK_METRICS_PORT": "9000"}, ("DESK_METRICS_PORT=9000", "9464", "leave it out")),
        ({"DESK_HOME": "/home/ada"}, ("DESK_HOME=/home/ada", "/data")),
        ({"TRADER_LIVE": "1"}, ("TRADER_LIVE=1 in a file", "TRADER_LIVE=1 docker compose up")),
        ({"OPENAI_API_KEY_FILE": "/home/key"}, ("OPENAI_API_KEY_FILE=/home/key", "/run/secrets/openai_api_key")),
        ({"DESK_BROKER": "alpaca-paper"}, ("DESK_BROKER=alpaca-paper needs ALPACA_API_KEY_FILE", "alpaca_secret_key")),
        ({"DESK_OPTION_CHAINS": "alpaca"}, ("DESK_OPTION_CHAINS=alpaca needs", "alpaca_data_api_key")),
        ({"DESK_DRAIN_SECONDS": "31"}, ("DESK_DRAIN_SECONDS=31", "40 s", "30 or less")),
        (
            {"DESK_MARKET": "files", "DESK_DATA": "/srv/no-such-prices", "DESK_REPLAY_DATE": "2020-01-02"},
            ("DESK_DATA=/srv/no-such-prices", "mount"),
        ),
        ({"DESK_PROVIDER": "rulebook"}, ("DESK_PROVIDER=rulebook: no service", "desk up")),
        ({"DESK_PROVIDER_URL": ""}, ("needs a URL", "DESK_PROVIDER_URL")),
        ({"DESK_RESEARCH_ROLES": "nobody"}, ("nobody", "DESK_RESEARCH_ROLES")),
        ({"DESK_ROLE_MODELS": "quick=litellm:openai/gpt-5.5"}, ("OPENAI_API_KEY", "quick=litellm")),
    ],
)
def test_a_line_that_a_service_cannot_take_is_refused_before_any_starts(
    line: dict[str, str], said: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(SettingError) as found:
        fleet_settings.check({**GOOD, **line}, FIXED, tmp_path)
    text = f"{found.value.args[0]}; {found.value.remedy}"
    assert all(each in text for each in said), text
    assert "mine" not in text
    assert "\n" not in text


def test_a_volume_of_another_desk_is_refused(fleet: Processes, tmp_path: Path) -> None:
    address = (tmp_path / "secrets" / "redis_url").read_text("utf-8")

    def upgraded(name: str) -> subprocess.CompletedProcess[str]:
        own = {"DESK_HOME": str(tmp_path / name), "DESK_DATABASE_URL_FILE": str(tmp_path / f"{name}.url")}
        (tmp_path / f"{name}.url").write_text(f"sqlite:///{tmp_path}/{name}.db", encoding="utf-8")
        fixed = [f"--fixed=DESK_REDIS_URL_FILE={tmp_path}/secrets/redis_url"]
        fixed += [f"--fixed={variable}={value}" for variable, value in own.items()]
        return zygote.run(["db", "upgrade", "--fleet", *fixed], {"PATH": os.environ["PATH"], **GOOD}, tmp_path)

    assert [upgraded("ours").returncode, upgraded("ours").returncode] == [0, 0]
    other = upgraded("theirs")
    assert (other.returncode, address in other.stderr) == (2, True)
    assert "is of another desk" in other.stderr
    settings = load_settings({"DESK_HOME": str(tmp_path / "home")}, tmp_path)
    for _ in range(2):
        require_home(settings, "ours")
    with pytest.raises(UsageError, match="is of another desk"):
        require_home(settings, "theirs")
