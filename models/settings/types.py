"""The types of settings' values, each with the check of its texts."""

from __future__ import annotations

import base64
import datetime as dt
import json
import os
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from stat import S_ISREG
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, TypeAdapter

from chordesk.models import model_prices, notice_channels, urls
from chordesk.models.errors import UsageError
from chordesk.models.files import expanded
from chordesk.models.money import currency_code
from chordesk.models.order_terms import require_protection
from chordesk.models.states import MODES
from chordesk.models.urls import readable_hosts

_TOKEN = re.compile(r"[!-~]{16,}")
_HOST_NAME = re.compile(r"[A-Za-z0-9._-]+|\[?[0-9A-Fa-f:]*:[0-9A-Fa-f:.]+\]?")
_IDENTITY = re.compile(r"[^\s@][^@\r\n]{0,98} [^\s@]{1,64}@[^\s@]+\.[^\s@]+")
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra"]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Count = Annotated[int, Field(ge=1)]


def _names(value: Any) -> Any:
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, list | tuple):
        raise ValueError("write names, separated by commas")
    return tuple(dict.fromkeys(value))


def split(remedy: str) -> BeforeValidator:
    """Return a validator that takes the parts of a comma-separated text, each once, and rejects an empty one."""

    def parts(value: Any) -> Any:
        if not (found := _names(value or ())):
            raise ValueError(remedy)
        return found

    return BeforeValidator(parts)


def _secret(check: Callable[[str], str]) -> AfterValidator:
    return AfterValidator(lambda value: SecretStr(check(value.get_secret_value())))


def _anywhere(universe: str) -> str:
    """Return the universe as another working folder can read it: the path of a file is made absolute."""
    try:
        path = Path(universe).expanduser()
        return str(path.absolute()) if path.is_file() else universe
    except (OSError, RuntimeError):  # a list that is too long for a path; a home that is not known
        return universe


# A time of each session: HH:MM where the exchange is, or so many minutes from the session's own open or close.
TIME_RULE = r"([01]\d|2[0-3]):[0-5]\d|(open|close)([+-]\d{1,3}m)?"
TIME_REMEDY = "write HH:MM, or minutes from the session's own open or close: 12:30, open+15m, close-30m"


def _clock_time(value: str) -> str:
    if value == "off" or re.fullmatch(TIME_RULE, value):
        return value
    try:
        return f"{dt.datetime.strptime(value, '%H:%M'):%H:%M}"
    except ValueError:
        raise ValueError("must be HH:MM, minutes from the open or close (open+15m, close-30m), or off") from None


def _currency(value: str) -> str:
    try:
        return currency_code(value)
    except UsageError as error:
        raise ValueError(str(error)) from None


def _approval_policy(value: str) -> str:
    kind, _, notional = value.partition(":")
    if value not in ("auto", "manual") and (kind != "above" or not notional.replace(".", "", 1).isdecimal()):
        raise ValueError("allowed are auto, manual and above:NOTIONAL, such as above:5000")
    return value


def _hard_to_guess(value: str) -> str:
    if not _TOKEN.fullmatch(value):
        raise ValueError("must be 16 characters or more, letters, digits and signs without spaces")
    return value


def _login(text: str) -> str:
    user, colon, password = text.partition(":")
    if not (user and colon and password) or "," in text:
        raise ValueError("must be USER:PASSWORD, with no comma in it")
    return text


def _identity(value: str) -> str:
    if not _IDENTITY.fullmatch(value):
        raise ValueError("must be a name and a mail address, such as Ada Lovelace ada@example.org")
    return value


def _host_names(value: str) -> str:
    for name in filter(None, (part.strip() for part in value.split(","))):
        if not _HOST_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a Host name: give names by comma, without scheme, port or *")
    return value


def _web_search(value: str) -> str:
    _host_names(value.partition(";")[2])
    return value


def _ed25519(value: str) -> str:
    try:
        length = len(base64.b64decode(value, validate=True))
    except ValueError:
        length = 0
    if length != 32:
        raise ValueError("must be an Ed25519 public key, 32 bytes as base64, as `desk arm` prints it")
    return value


def _cutoffs(value: str) -> str:
    for part in filter(None, (part.strip() for part in value.split(";"))):
        model, _, day = part.partition("=")
        try:
            dt.date.fromisoformat(day)
        except ValueError:
            model = ""
        if not model:
            raise ValueError(f"{part!r} is not MODEL=YYYY-MM-DD, such as gpt-5.5=2025-06-30")
    return value


_THREAD_LIMIT = re.compile(r"(hours|turns|tokens):(\d+(?:\.\d+)?)")


def thread_limits(value: str) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for entry in filter(None, (part.strip() for part in value.split(";"))):
        mode, _, limits = entry.partition("=")
        parts = [_THREAD_LIMIT.fullmatch(part.strip()) for part in limits.split(",")]
        own = {part[1]: float(part[2]) for part in parts if part is not None}
        whole = all(number > 0 and (name == "hours" or number.is_integer()) for name, number in own.items())
        if mode not in MODES or mode in found or len(own) < len(parts) or not whole:
            form = "MODE=hours:H,turns:N,tokens:N, each above 0 and each mode once"
            raise ValueError(f"{entry!r} is not {form}; modes are {', '.join(MODES)}")
        found[mode] = own
    return found


def _thread_limits(value: str) -> str:
    thread_limits(value)
    return value


def _modules(value: tuple[str, ...]) -> tuple[str, ...]:
    for name in value:
        if not all(part.isidentifier() for part in name.split(".")):
            raise ValueError(f"{name!r} is no name of a module, such as desk_graphs or mine.graphs")
    return value


def _prompt_texts(value: str) -> str:
    """Return the texts of own prompts by role, as JSON: a run keeps them, and its workers may lack the files. What is
    such JSON already stays as it is."""
    if not value.strip():
        return ""
    if value.lstrip().startswith("{"):
        texts = TypeAdapter(dict[str, str]).validate_json(value)
        return json.dumps(texts, sort_keys=True)
    folder = _expanded(value)
    if folder.is_dir():
        files = {path.stem: path for path in sorted(folder.glob("*.md"))}
        if not files:
            raise ValueError(f"{value} has no file ROLE.md")
    else:
        parts = [part.partition("=") for part in value.split(",")]
        if not all(role.strip() and path.strip() for role, _, path in parts):
            raise ValueError(f"{value!r} is no folder: write ROLE=FILE by comma, or a folder of ROLE.md")
        files = {role.strip(): _expanded(path.strip()) for role, _, path in parts}
    try:
        texts = {role: path.read_text(encoding="utf-8") for role, path in files.items()}
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"a prompt cannot be read: {error}") from None
    return json.dumps(texts, sort_keys=True)


# The files of own lenses, as texts by name. What stands in them is read by `tools.lenses.files`.
LENS_FOLDER = "lenses"  # of the home, where no setting names another
MOST_LENS_FILES = 200


def _lens_texts(value: str) -> str:
    """Return the texts by name as JSON: a run keeps them, and its workers may lack the files. What is such JSON already
    stays as it is. Raises ValueError."""
    if not value.strip():
        return ""
    if value.lstrip().startswith("{"):
        return json.dumps(_texts_by_name(json.loads(value)), sort_keys=True)
    folder = _expanded(value)
    if folder.is_dir():
        if not (texts := lenses_of_folder(folder)):
            raise ValueError(f"{value} has no file NAME.md")
        return json.dumps(texts, sort_keys=True)
    parts = [part.partition("=") for part in value.split(",")]
    if not all(name.strip() and path.strip() for name, _, path in parts):
        raise ValueError(f"{value!r} is no folder: write NAME=FILE by comma, or a folder of NAME.md")
    texts = {name.strip(): _lens_text(_expanded(path.strip())) for name, _, path in parts}
    return json.dumps(texts, sort_keys=True)


def _texts_by_name(given: object) -> dict[str, str]:
    if not isinstance(given, dict) or not all(isinstance(part, str) for pair in given.items() for part in pair):
        raise ValueError("write a JSON object of texts by name")
    return given


def _lens_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the lens {path.name} cannot be read: {error}") from None


def lenses_of_folder(folder: Path) -> dict[str, str]:
    """Return the texts of a folder's files NAME.md by name; none where there is no such folder."""
    try:
        paths = sorted(path for path in folder.glob("*.md") if path.is_file())
        signs = tuple((path, stat.st_mtime_ns, stat.st_size) for path in paths if (stat := path.stat()))
    except OSError:
        return {}
    return dict(_read_all(signs[:MOST_LENS_FILES]))


def unread_lenses(own_lenses: str, home: Path) -> dict[str, str]:
    """Return by name why an entry NAME.md of the home's folder is no lens; none where a setting has the texts."""
    folder = home / LENS_FOLDER
    if own_lenses or not folder.is_dir():
        return {}
    return {path.stem: why for path in sorted(folder.glob("*.md")) if (why := _unread(path)) is not None}


def _unread(path: Path) -> str | None:
    try:
        mode = path.stat().st_mode
    except OSError as error:  # as of a link that leads nowhere, or to itself
        return (error.strerror or type(error).__name__).lower()
    if not S_ISREG(mode):
        return "it is no file"
    return None if os.access(path, os.R_OK) else "permission denied"


@lru_cache(maxsize=16)
def _read_all(signs: tuple[tuple[Path, int, int], ...]) -> Mapping[str, str]:
    found = {}
    for path, _, size in signs:
        try:
            # A file that cannot be read as text is refused by what is in it, where it is named.
            found[path.stem] = path.read_bytes()[: 1 << 16].decode("utf-8-sig", "replace") if size else ""
        except OSError:
            continue
    return found


def own_texts(own_lenses: str, home: Path) -> Mapping[str, str]:
    """Return the texts of the setting, or of the home's folder as it is now."""
    return _unpacked(own_lenses) if own_lenses else lenses_of_folder(home / LENS_FOLDER)


@lru_cache(maxsize=64)
def _unpacked(own_lenses: str) -> Mapping[str, str]:
    found: Mapping[str, str] = json.loads(own_lenses)
    return found


def _expanded(path: Path | str) -> Path:
    try:
        return expanded(path)
    except UsageError as error:
        raise ValueError(str(error)) from None


def _place(value: str) -> str:
    return value if "://" in value or "::" in value else str(_expanded(value).absolute())


def _venue_names(value: Any) -> Any:
    return tuple(name for name in _names(value) if name != "none")


Absolute = Annotated[Path, AfterValidator(lambda path: _expanded(path).absolute())]
WebUrl = Annotated[str, AfterValidator(urls.require_http)]
RedisUrl = Annotated[SecretStr, _secret(urls.require_redis)]
SqlUrl = Annotated[SecretStr, _secret(urls.require_database)]
Token = Annotated[SecretStr, _secret(_hard_to_guess)]
Login = Annotated[SecretStr, _secret(_login)]
Identity = Annotated[SecretStr, _secret(_identity)]
Channels = Annotated[SecretStr, _secret(notice_channels.readable_channels)]
NotifyKinds = Annotated[str, AfterValidator(notice_channels.readable_kinds)]
QuietTimes = Annotated[str, AfterValidator(notice_channels.readable_quiet)]
Currency = Annotated[str, AfterValidator(_currency)]
Zone = Annotated[str, AfterValidator(notice_channels.readable_zone)]
WebSearch = Annotated[str, AfterValidator(_web_search)]
HostNames = Annotated[str, AfterValidator(_host_names)]
PageHosts = Annotated[str, AfterValidator(readable_hosts)]
ClockTime = Annotated[str, AfterValidator(_clock_time)]
Policy = Annotated[str, AfterValidator(_approval_policy)]
ProtectionRule = Annotated[str, AfterValidator(require_protection)]
PublicKey = Annotated[str, AfterValidator(_ed25519)]
PlaceUrl = Annotated[str, Field(min_length=1), AfterValidator(_place)]
ThreadLimits = Annotated[str, AfterValidator(_thread_limits)]
PromptTexts = Annotated[str, AfterValidator(_prompt_texts)]
LensTexts = Annotated[str, AfterValidator(_lens_texts)]
Universe = Annotated[str, AfterValidator(_anywhere)]
Prices = Annotated[str, AfterValidator(model_prices.readable)]
RoleNames = Annotated[tuple[str, ...], split("name at least one role, such as quick")]
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
ModuleNames = Annotated[Names, AfterValidator(_modules)]
ModelCutoffs = Annotated[str, AfterValidator(_cutoffs)]
VenueName = Literal["manifold", "polymarket", "kalshi", "hyperliquid"]
MaskKind = Literal["names", "dates", "levels"]
MaskKinds = Annotated[tuple[MaskKind, ...], BeforeValidator(_names)]
VenueNames = Annotated[tuple[VenueName, ...], BeforeValidator(_venue_names)]
