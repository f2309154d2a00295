"""The private authority: what it signs is trusted by its root alone, for this host's names alone."""

from __future__ import annotations

import socket
import ssl
import stat
import threading
from pathlib import Path

import pytest

from tests.fleet.machine.certificates import ADDRESS, Authority, Pair
from tests.patience import PATIENCE


@pytest.fixture
def authority() -> Authority:
    return Authority()


def handshake(pair: Pair, root: Path, name: str) -> str:
    """Return the version of TLS that a client that trusts this root alone agrees on with a server of this name."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pair.certificate, pair.key)
    client = ssl.create_default_context(cafile=str(root))
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE)
    theirs.settimeout(PATIENCE)

    def answer() -> None:
        try:
            server.wrap_socket(theirs, server_side=True).close()
        except (ssl.SSLError, OSError):
            theirs.close()  # the client has left

    answering = threading.Thread(target=answer)
    answering.start()
    try:
        with client.wrap_socket(ours, server_hostname=name) as line:
            return str(line.version())
    finally:
        ours.close()
        answering.join(PATIENCE)


@pytest.mark.parametrize("name", [ADDRESS, "localhost"])
def test_a_client_with_the_root_agrees(authority: Authority, tmp_path: Path, name: str) -> None:
    pair, root = authority.issue(tmp_path, "redis"), authority.write_root(tmp_path / "root.crt")
    assert handshake(pair, root, name) == "TLSv1.3"


def test_another_root_does_not_do(authority: Authority, tmp_path: Path) -> None:
    pair, other = authority.issue(tmp_path, "redis"), Authority().write_root(tmp_path / "other.crt")
    with pytest.raises(ssl.SSLCertVerificationError, match="verify failed"):
        handshake(pair, other, ADDRESS)


def test_another_name_does_not_do(authority: Authority, tmp_path: Path) -> None:
    pair, root = authority.issue(tmp_path, "redis"), authority.write_root(tmp_path / "root.crt")
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(pair, root, "desk.example")


def test_a_key_is_its_owners_alone(authority: Authority, tmp_path: Path) -> None:
    pair = authority.issue(tmp_path, "postgres")
    assert stat.S_IMODE(pair.key.stat().st_mode) == 0o600
    assert b"PRIVATE KEY" not in pair.certificate.read_bytes()
