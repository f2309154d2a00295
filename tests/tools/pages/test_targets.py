"""Which URLs and addresses are read: no host beside the named ones, and no address of a private network."""

from __future__ import annotations

import datetime as dt
import ipaddress
import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from chordesk.models.urls import page_hosts
from chordesk.tools.pages import page_reader
from chordesk.tools.pages.page_reader import PageError, is_public, target_of
from tests.fakes.pages import ARTICLE, FakePages, redirect, reply
from tests.patience import PATIENCE
from tests.tools.pages.conftest import Read, reason

pytestmark = pytest.mark.process  # the text of a page is found in a process of its own


def resolving(monkeypatch: pytest.MonkeyPatch, *answers: str) -> list[str]:
    """Let every name have these addresses; return the names that are asked for."""
    asked: list[str] = []

    def getaddrinfo(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        try:
            ipaddress.ip_address(host)
            found = [host]
        except ValueError:
            asked.append(host)
            found = list(answers)
        families = [socket.AF_INET6 if ":" in one else socket.AF_INET for one in found]
        return [(family, socket.SOCK_STREAM, 6, "", (one, port)) for family, one in zip(families, found, strict=True)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return asked


READ = {
    "www.sec.gov": ["https://www.sec.gov", "https://WWW.SEC.GOV./a?b=c"],
    "*.sec.gov": ["https://data.sec.gov/a", "https://a.b.sec.gov/a"],
    "www.sec.gov:8443": ["https://www.sec.gov:8443/a"],
    "127.0.0.1:8080": ["http://127.0.0.1:8080/a", "https://127.0.0.1:8080/a"],
    "[::1]:8080": ["http://[::1]:8080/a"],
    "localhost:8080": ["http://localhost:8080/a"],
    "10.0.0.7": ["https://10.0.0.7/a"],
}
REFUSED = {
    "www.sec.gov": [
        "http://www.sec.gov/", "https://sec.gov/", "https://www.sec.gov.evil.example/", "https://www.sec.gov:8443/",
        "https://www.sec.gov:22/", "https://www.sec.gov:0/", "https://www.sec.gov:99999/", "https://[::1",
        "https://www.sec.gov@127.0.0.1/", "https://user:word@www.sec.gov/", "https://www.sec.gov%2f@127.0.0.1/",
        "https://www.sec.gov%2eevil.example/", "https://www.sec.gov\\@127.0.0.1/", "https://www.sec.gov/a b",
        "https://www.sec.gov/a\r\nHost: evil", "https://www.sec.gov\t/", "https:///www.sec.gov/", "www.sec.gov/a",
        "file:///etc/passwd", "ftp://www.sec.gov/", "data:text/html,hello", "https://169.254.169.254/latest",
        "https://127.0.0.1/", "https://www.sec.gov/" + "a" * 2000, "https://w\u0175w.sec.gov/",
    ],
    "*.sec.gov": [
        "https://sec.gov/", "https://evilsec.gov/", "https://a,b.sec.gov/", "https://a%2fb.sec.gov/",
        "https://a*.sec.gov/", "https://\ud800.sec.gov/",
    ],
    "www.sec.gov,127.0.0.1:443": [
        "https://2130706433/", "https://0x7f000001/", "https://127.1/", "https://0177.0.0.1/",
        "https://[::ffff:127.0.0.1]/", "https://[::1]/",
    ],
    "127.0.0.1:8080": ["http://127.0.0.1:8081/", "http://127.0.0.2:8080/", "http://localhost:8080/"],
    "10.0.0.7": ["http://10.0.0.7/a"],
}  # fmt: skip


@pytest.mark.parametrize("hosts", READ)
def test_a_url_of_a_named_host_is_read(hosts: str) -> None:
    for url in READ[hosts]:
        assert target_of(url, page_hosts(hosts)).scheme == url.partition(":")[0]


@pytest.mark.parametrize("hosts", REFUSED)
def test_any_other_url_is_refused(hosts: str) -> None:
    for url in REFUSED[hosts]:
        with pytest.raises(PageError):
            pytest.fail(f"{url} is read: {target_of(url, page_hosts(hosts))}")


def test_a_setting_that_names_no_host_is_refused() -> None:
    for text in (
        "https://www.sec.gov", "www.sec.gov/a", "*", "*.", "a@b", "a b", "127.0.0.1", "localhost", "[::1]", "::1",
        "2130706433", "0x7f.1", "127.1", "a:0", "a:70000", "a:b", "a..b", "-a.b", "*.127.0.0.1",
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"is no host|is this machine|is no port"):
            page_hosts(text)


PRIVATE = [
    "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.100.100.200", "168.63.129.16",
    "0.0.0.0", "224.0.0.1", "255.255.255.255", "192.0.2.1", "::", "::1", "fe80::1", "fd00:ec2::254", "ff02::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:db8::1", "2001:0:1::1",
    "192.0.0.8", "192.88.99.1", "192.31.196.1", "192.52.193.1", "192.175.48.1", "2001:1::1", "fec0::1",
    "::7f00:1", "::ffff:0:7f00:1", "3fff::1",
]  # fmt: skip
PUBLIC = ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "::ffff:8.8.8.8"]


def test_a_name_server_that_does_not_answer_is_within_the_time_of_the_page(
    read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answered.wait(PATIENCE))
    answer = reason(read("https://www.example.com/a", "www.example.com", tool_seconds=0.5))
    assert answer == "www.example.com took too long: its address was not found"
    answered.set()


def test_an_address_that_is_not_public_is_refused(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [address for address in (*PUBLIC, *PRIVATE) if is_public(ipaddress.ip_address(address))] == PUBLIC
    for address in PRIVATE:
        asked = resolving(monkeypatch, "93.184.215.14", address)  # one of several is enough
        answer = reason(read("https://www.example.com/a", "www.example.com"))
        written = ipaddress.ip_address(address)
        assert answer == f"www.example.com has the address {written}, which is not public: it is not read"
        assert asked == ["www.example.com"]


@pytest.mark.parametrize("place", ["localhost", "127.0.0.1"])
def test_a_name_is_resolved_once_and_its_address_connected_to(
    pages: FakePages, read: Read, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    # The server is reached although nothing but the first question would lead to it: another would get another answer.
    pages.pages["/a"] = reply(ARTICLE)
    asked: list[str] = []
    real = socket.getaddrinfo

    def once(host: str, *arguments: Any, **named: Any) -> Any:
        if host == "localhost":
            asked.append(host)
            host = "127.0.0.1" if len(asked) <= 2 else "10.255.255.1"
        return real(host, *arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", once)
    assert read(f"http://{place}:{pages.port}/a", f"{place}:{pages.port}").has_data
    assert asked == (["localhost", "localhost"] if place == "localhost" else [])  # robots.txt, then the page
    assert f"Host: {place}:{pages.port}\r\n" in pages.requests[-1][1]


def test_a_loopback_name_that_leads_elsewhere_is_refused(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(monkeypatch, "10.0.0.1")
    assert "which is not public" in reason(read("http://localhost:8080/a", "localhost:8080"))


def test_a_name_without_an_address_is_an_answer(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fails)
    assert reason(read("https://no.example/", "no.example")) == "no.example has no address: Name or service not known"


def test_a_redirect_within_the_hosts_is_followed(pages: FakePages, read: Read) -> None:
    with FakePages() as other:
        pages.pages |= {"/a": redirect("b"), "/b": redirect(f"{other.url}/c#part", 308)}
        other.pages["/c"] = reply(ARTICLE)
        page = read(f"{pages.url}/a", f"{pages.place},{other.place}").payload["page"]
    assert page["url"] == f"{pages.url}/a"
    assert page["finalUrl"] == f"{other.url}/c"
    assert other.paths == ["/robots.txt", "/c"]


def test_a_redirect_elsewhere_is_not_followed(pages: FakePages, read: Read) -> None:
    for place in (
        "https://evil.example/", "http://169.254.169.254/latest/meta-data/", "//169.254.169.254/", "http://[::1]:22/",
        "http://2130706433/", "http://user@127.0.0.1:1/", "file:///etc/passwd", "gopher://127.0.0.1:1/",
        "http://127.0.0.1:1/", "https://[::ffff:169.254.169.254]/", "javascript:alert(1)",
    ):  # fmt: skip
        pages.pages["/a"] = redirect(place)
        pages.requests.clear()
        assert "/a leads to another page, and" in reason(read(f"{pages.url}/a", pages.place)), place
        assert pages.paths == ["/robots.txt", "/a"]


def test_a_redirect_of_the_sites_rules_is_not_followed_elsewhere(pages: FakePages, read: Read) -> None:
    pages.pages |= {"/a": reply(ARTICLE), "/robots.txt": redirect("http://169.254.169.254/")}
    assert "169.254.169.254 is not among the allowed hosts" in reason(read(f"{pages.url}/a", pages.place))


def test_redirects_come_to_an_end(pages: FakePages, read: Read) -> None:
    pages.pages |= {f"/{number}": redirect(f"/{number + 1}") for number in range(20)}
    pages.pages["/5"] = reply(ARTICLE)
    assert read(f"{pages.url}/0", pages.place).has_data
    pages.pages["/5"] = redirect("/6")
    assert "more than 5 times" in reason(read(f"{pages.url}/0", pages.place))
    pages.pages["/5"] = redirect("/5")
    assert "more than 5 times" in reason(read(f"{pages.url}/5", pages.place))


def certificate(folder: Path, name: str) -> Path:
    """Write a certificate of a name that signs itself, with its key; return the file."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    path = folder / f"{name}.pem"
    path.write_bytes(made.public_bytes(encoding) + key.private_bytes(encoding, form, serialization.NoEncryption()))
    return path


@pytest.mark.parametrize(
    ("name", "trusted", "expected"),
    [
        ("localhost", True, None),
        ("localhost", False, "self-signed certificate"),
        ("other.example", True, "Hostname mismatch"),
    ],
)
def test_a_certificate_is_verified_against_the_name(
    read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, trusted: bool, expected: str | None
) -> None:
    file = certificate(tmp_path, name)
    monkeypatch.setenv("SSL_CERT_FILE", str(file if trusted else certificate(tmp_path, "someone")))
    page_reader._tls.cache_clear()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    try:
        with FakePages(tls=context) as pages:
            pages.pages["/a"] = reply(ARTICLE)
            answer = read(f"https://localhost:{pages.port}/a", f"localhost:{pages.port}")
    finally:
        page_reader._tls.cache_clear()
    if expected is None:
        assert answer.has_data
    else:
        assert expected in reason(answer)


def test_a_server_that_never_shakes_hands_is_cut_off(read: Read) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        answer = read(f"https://127.0.0.1:{port}/", f"127.0.0.1:{port}", tool_seconds=2.0)
    assert reason(answer) == "127.0.0.1 took too long"
