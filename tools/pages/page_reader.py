"""Reading of one page: its checked address, its robots.txt, its redirects, its content type, within limits of time and
size."""

from __future__ import annotations

import datetime as dt
import http.client
import ipaddress
import re
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from email.message import Message
from functools import cache, partial
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes, urljoin, urlsplit

from chordesk.models.errors import DeskError
from chordesk.models.urls import HTTPS_PORT, MOST_URL_CHARS, Address, PageHost
from chordesk.tools.market.fetching import OutOfTime, within

_PORTS = {"https": HTTPS_PORT, "http": 80}
_HOST = re.compile(r"[0-9a-z_.:-]+")
_PATH_CHARS = "/%:@!$&'()*+,;=~-._"
# Addresses that pass for public ones: those that carry another address in them, those that IANA has for protocols,
# relays and AS112 (RFC 6890 and its registry, of which ipaddress knows a part), and Azure's service for its machines.
_NOT_PUBLIC = tuple(
    ipaddress.ip_network(network)
    for network in (
        "192.0.0.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.175.48.0/24", "168.63.129.16/32",
        "2001::/23", "2002::/16", "2620:4f:8000::/48", "3fff::/20",
    )
)  # fmt: skip
# All that is given out of IPv6; outside of it are site-local addresses (fec0::/10), which count as global elsewhere.
_PUBLIC_V6 = ipaddress.ip_network("2000::/3")


class PageError(DeskError):
    """A page that may not or cannot be read; the message names it and the reason."""


@dataclass(frozen=True, slots=True)
class Target:
    """A URL of an allowed host. path: with the query. rule: the entry of the setting that allows it."""

    scheme: str
    host: str
    port: int
    path: str
    rule: PageHost

    @property
    def origin(self) -> str:
        """Return scheme, host and port, the port only where it is not the scheme's own."""
        return f"{self.scheme}://{self.authority}"

    @property
    def authority(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == _PORTS[self.scheme] else f"{name}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.origin}{self.path}"


def target_of(url: str, hosts: Sequence[PageHost]) -> Target:
    if len(url) > MOST_URL_CHARS:
        raise PageError(f"the URL has {len(url)} characters, more than {MOST_URL_CHARS}")
    if any(letter <= " " or letter in '\\"<>^`{|}' or letter == "\x7f" for letter in url):
        raise PageError(f"{url!r} has a space or a sign that no URL has: percent-encode it")
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        raise PageError(f"{url!r} is no URL") from None
    if parts.scheme not in _PORTS or not host:
        raise PageError(f"{url!r} is not read: only https:// URLs are")
    if "@" in parts.netloc:
        raise PageError(f"the URL of {host} has a login in it: it is not read")
    if _HOST.fullmatch(host) is None:
        raise PageError(f"{host!r} is no host: write it as DNS has it, in letters, digits and hyphens")
    port = port if port is not None else _PORTS[parts.scheme]
    path = quote(parts.path or "/", safe=_PATH_CHARS, errors="replace")
    if parts.query:
        path += f"?{quote(parts.query, safe=_PATH_CHARS + '?', errors='replace')}"
    for rule in hosts:
        if rule.admits(parts.scheme, host, port):
            return Target(parts.scheme, host, port, path, rule)
    raise _not_allowed(parts.scheme, host, port, hosts)


def address_of(host: str, port: int, rule: PageHost, until: float) -> str:
    """Return the one address that a host of the rule is connected to. until: time.monotonic() by which it is known.
    Raises PageError when it has none, or when any of its addresses is of a private, link-local, loopback or otherwise
    not public network that the setting does not name."""
    if rule.address is not None:
        return str(rule.address)  # the setting names the address itself
    try:
        rows = within(
            until - time.monotonic(), partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM), "page address"
        )
    except OutOfTime:
        raise PageError(f"{host} took too long: its address was not found") from None
    except (OSError, UnicodeError) as error:
        raise PageError(f"{host} has no address: {getattr(error, 'strerror', None) or error}") from None
    found = [ipaddress.ip_address(str(row[4][0]).partition("%")[0]) for row in rows]
    for address in found:
        if not (address.is_loopback if rule.loopback else is_public(address)):
            raise PageError(f"{host} has the address {address}, which is not public: it is not read")
    return str(found[0])


def is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return is_public(address.ipv4_mapped)
    if isinstance(address, ipaddress.IPv6Address) and address not in _PUBLIC_V6:
        return False
    inner = any(address in network for network in _NOT_PUBLIC if network.version == address.version)
    return address.is_global and not address.is_multicast and not inner


def _not_allowed(scheme: str, host: str, port: int, hosts: Sequence[PageHost]) -> PageError:
    allowed = ", ".join(str(rule) for rule in hosts)
    if scheme == "http" and any(rule.admits("https", host, HTTPS_PORT) for rule in hosts):
        return PageError(f"{host} is read by https:// alone")
    place = host if port == _PORTS[scheme] else f"{host}:{port}"
    return PageError(f"{place} is not among the allowed hosts ({allowed})", remedy="DESK_PAGE_HOSTS names them")


# One GET request to a checked address, within limits of time and size.
#
# The connection goes to the address that was checked, so that a name that resolves to another one a moment later
# changes nothing. Certificates are verified against the host's name. No proxy is used: it would resolve the name
# itself.

AGENT = "chordesk"
MOST_BYTES = 2 * 1024 * 1024
_READ_BYTES = 64 * 1024
_GZIP = 31  # of zlib: the gzip format with its largest window


@dataclass(frozen=True, slots=True)
class PageReply:
    """A server's reply. body: empty unless the status is 200."""

    status: int
    headers: Message
    body: bytes


def get(target: Target, until: float) -> PageReply:
    address = address_of(target.host, target.port, target.rule, until)
    cut = threading.Event()
    try:
        with _connected(target, address, until, cut) as connected:
            connection = http.client.HTTPConnection(target.host, target.port)
            connection.sock = connected
            connection.request("GET", target.path, headers=_headers(target))
            with connection.getresponse() as reply:
                return PageReply(reply.status, reply.headers, _body(reply, target, cut) if reply.status == 200 else b"")
    except (OSError, ValueError, http.client.HTTPException, zlib.error) as error:
        if cut.is_set() or isinstance(error, TimeoutError):
            raise PageError(f"{target.host} took too long") from None
        raise PageError(f"{target.host} did not give the page: {_reason(error)}") from None


@contextmanager
def _connected(target: Target, address: str, until: float, cut: threading.Event) -> Iterator[socket.socket]:
    """Yield a connection that is shut down at the deadline, whatever the server does: a limit for each read would let a
    byte a second go on without end."""
    if (left := until - time.monotonic()) <= 0:
        raise TimeoutError
    connected = socket.create_connection((address, target.port), left)
    timer = None
    try:
        if target.scheme == "https":
            connected = _tls().wrap_socket(connected, server_hostname=target.host, do_handshake_on_connect=False)
        timer = threading.Timer(max(until - time.monotonic(), 0.0), _cut, (connected, cut))
        timer.daemon = True
        timer.start()
        if isinstance(connected, ssl.SSLSocket):
            connected.do_handshake()
        yield connected
    finally:
        if timer is not None:
            timer.cancel()
        connected.close()


def _cut(connected: socket.socket, cut: threading.Event) -> None:
    cut.set()
    with suppress(OSError):
        socket.socket.shutdown(
            connected, socket.SHUT_RDWR
        )  # of TLS too: its own would change what another thread reads


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


def _headers(target: Target) -> dict[str, str]:
    return {
        "Host": target.authority,
        "User-Agent": AGENT,
        "Accept": "text/html,text/plain;q=0.9",
        "Accept-Encoding": "gzip",
        "Connection": "close",
    }


def _body(reply: http.client.HTTPResponse, target: Target, cut: threading.Event) -> bytes:
    packing = reply.headers.get("Content-Encoding", "identity").strip().lower()
    if packing not in ("gzip", "identity", ""):
        raise PageError(f"{target.host} sent the page packed as {packing[:40]!r}, which was not asked for")
    unpacker = zlib.decompressobj(_GZIP) if packing == "gzip" else None
    found, came = bytearray(), 0
    while part := reply.read1(_READ_BYTES):
        came += len(part)  # what follows the end of a packed page is kept by zlib, and counts too
        # No more is unpacked than may be kept: a few KB can stand for gigabytes.
        found += unpacker.decompress(part, MOST_BYTES + 1 - len(found)) if unpacker else part
        if max(len(found), came) > MOST_BYTES:
            raise PageError(f"the page of {target.host} is larger than {MOST_BYTES // 2**20} MB")
    if cut.is_set():
        raise TimeoutError
    if reply.length or (unpacker and not unpacker.eof):
        raise PageError(f"the page of {target.host} ended before its end")
    return bytes(found)


def _reason(error: Exception) -> str:
    if isinstance(error, zlib.error):
        return "its gzip is broken"
    text = getattr(error, "verify_message", None) or getattr(error, "strerror", None) or type(error).__name__
    return str(text)[:200]


PATH = "/robots.txt"
_ANY = "*"


class PathRule(NamedTuple):
    """A path with `*` for any letters, and `$` at its end for the end of the path; whether it may be read."""

    pattern: str
    allows: bool

    def matches(self, path: str) -> bool:
        whole = self.pattern.endswith("$")
        first, *parts = self.pattern.removesuffix("$").split(_ANY)
        if not path.startswith(first):
            return False
        place = len(first)
        if not parts:
            return not whole or place == len(path)
        for part in parts[:-1]:
            if (found := path.find(part, place)) < 0:
                return False
            place = found + len(part)
        last = parts[-1]
        return path.endswith(last) and len(path) - len(last) >= place if whole else path.find(last, place) >= 0


class Robots:
    """What one site allows, from the reply to its robots.txt. A site without one allows everything."""

    def __init__(self, target: Target, read: Callable[[str], PageReply]) -> None:
        """read: returns the reply at a URL. Raises PageError when the site's rules cannot be known."""
        reply = read(f"{target.origin}{PATH}")
        if reply.status >= 500 or reply.status == 429:
            raise PageError(f"{PATH} of {target.host} answers with {reply.status}, so its rules are not known")
        self._rules = rules_of(reply.body.decode("utf-8-sig", "replace"), AGENT) if reply.status == 200 else []

    def check(self, target: Target) -> None:
        """Raise PageError for a page that the site asks programs not to read."""
        path = _plain(target.path)
        # The most specific rule holds, which is the longest; of two as long the one that allows.
        found = max((rule for rule in self._rules if rule.matches(path)), key=_weight, default=None)
        if found is not None and not found.allows:
            raise PageError(f"{PATH} of {target.host} asks programs not to read {target.path[:200]}")


def rules_of(text: str, agent: str) -> list[PathRule]:
    """Return the rules for a program: those of all groups that name it, else those for any program."""
    groups: dict[str, list[PathRule]] = {}
    named: set[str] = set()
    began = False  # the group has a rule, so that a further name begins another group
    for line in text.splitlines():
        key, _, value = line.partition("#")[0].partition(":")
        key, value = key.strip().lower(), value.strip()
        if key == "user-agent":
            named, began = (set() if began else named) | {value.lower()}, False
            groups.setdefault(value.lower(), [])
        elif key in ("allow", "disallow"):
            began = True
            if value:
                for name in named:
                    groups[name].append(PathRule(_plain(value), key == "allow"))
    return groups.get(agent.lower(), groups.get(_ANY, []))


def _weight(rule: PathRule) -> tuple[int, bool]:
    return len(rule.pattern), rule.allows


def _plain(path: str) -> str:
    return quote(unquote_to_bytes(path), safe="/?=&;,:@!$'()*+~-._")


MOST_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HTML = frozenset({"text/html", "application/xhtml+xml"})
_TEXT = frozenset({"text/plain"})
_BINARY_SIGN, _HEAD_BYTES = b"\x00", 1024
_MARKS = (b"\xff\xfe", b"\xfe\xff")  # of UTF-16, whose letters have such bytes


@dataclass(frozen=True, slots=True)
class RawPage:
    """A page as it came. charset: as the server states it."""

    target: Target
    body: bytes
    html: bool
    charset: str | None
    fetched_at: dt.datetime


def read_page(url: str, hosts: Sequence[PageHost], until: float, robots_of: Callable[..., Robots] = Robots) -> RawPage:
    """Return the page of a URL, after redirects within the allowed hosts. until: time.monotonic() by which it is there.
    robots_of: returns what a target's site allows, as Robots does. Raises PageError."""

    def rules(target: Target) -> Robots:
        return robots_of(target, lambda path: _follow(path, hosts, until, lambda _target: None)[1])

    target, reply = _follow(url, hosts, until, lambda target: rules(target).check(target))
    if reply.status != 200:
        raise PageError(f"{target.url} answers with {reply.status}")
    kind = reply.headers.get_content_type() if reply.headers.get("Content-Type") else "none"
    if kind == "application/pdf":
        raise PageError(f"{target.url} is a PDF, which is not supported")
    if kind not in _HTML | _TEXT:
        raise PageError(f"{target.url} is no page: its content type is {kind[:80]}")
    if _BINARY_SIGN in reply.body[:_HEAD_BYTES] and not reply.body.startswith(_MARKS):
        raise PageError(f"{target.url} is no page: it is binary, whatever its content type states")
    charset = reply.headers.get_content_charset()
    return RawPage(target, reply.body, kind in _HTML, charset, dt.datetime.now(dt.UTC))


def _follow(
    url: str, hosts: Sequence[PageHost], until: float, check: Callable[[Target], None]
) -> tuple[Target, PageReply]:
    """Return the last target and its reply. check: raises PageError for a target that may not be read."""
    target = target_of(url, hosts)
    for _ in range(MOST_REDIRECTS + 1):
        check(target)
        reply = get(target, until)
        if reply.status not in _REDIRECTS or not (place := reply.headers.get("Location")):
            return target, reply
        try:
            target = target_of(urljoin(target.url, place), hosts)
        except PageError as error:
            raise PageError(
                f"{target.url[:200]} leads to another page, and {error.args[0]}", remedy=error.remedy
            ) from None
    raise PageError(f"{url[:200]} leads from page to page more than {MOST_REDIRECTS} times")
