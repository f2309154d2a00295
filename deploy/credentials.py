"""Make the secrets of a fleet on one host: `python deploy/credentials.py FOLDER`, as `make secrets` does.

What exists is kept, so it can be run again: it adds what is missing. Written are a private authority, a certificate
for Redis, passwords, the key that signs messages, and the addresses, a file a secret, for the `secrets` of
compose.yaml. The folder is for its owner alone; the files in it can be read, because containers run as other users than
their maker.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import ipaddress
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS = 3650
SERVER_DAYS = 825  # the longest that common clients accept
CLOCK_ERROR = dt.timedelta(hours=1)  # by which another machine's clock may be behind
USER = "desk"
MOUNTED = "/run/secrets"
DATABASE = "postgresql+psycopg://{user}:{password}@postgres:5432/desk"
# Keys of brokers that features bring.
# generated: names of brokers' files
OF_FEATURES: tuple[str, ...] = ("ibkr_account",)
# end
# What only you can fill in. They are there empty, because compose mounts each; an empty one is used by nothing until
# .env names it.
BROUGHT = (
    "provider_key", "sec_identity", "notify_channels", "messengers_telegram_token",
    "messengers_slack_bot_token", "messengers_slack_app_token",
    "alpaca_api_key", "alpaca_secret_key", "alpaca_data_api_key", "alpaca_data_secret_key", *OF_FEATURES,
    "anthropic_api_key", "anthropic_auth_token", "openai_api_key", "gemini_api_key", "google_api_key",
    "mistral_api_key", "deepseek_api_key", "groq_api_key", "openrouter_api_key", "xai_api_key",
)  # fmt: skip
# What workers, schedule and Flower use of Redis, and nothing that changes the server; `probe` may ask whether it lives.
# Nobody can be the default user, but it may do everything: Redis 7.0 reads the transactions of its own append-only file
# as that user, and drops those that it may not do.
ACL = (
    "user default off resetpass allkeys allchannels +@all\n"
    "user probe on nopass resetkeys resetchannels -@all +ping\n"
    "user {user} on #{digest} ~* &* +@all -@admin -@dangerous +info\n"
)


TRUST = f"ssl_cert_reqs=required&ssl_check_hostname=true&ssl_ca_certs={MOUNTED}/authority"
# What is made up, in this order: each by the hosts of Redis and what the folder has so far. A new secret is a line here
# and one of compose.yaml's `secrets`.
MADE: Mapping[str, Callable[[str, Mapping[str, str]], str]] = {
    "redis_password": lambda redis, have: secrets.token_urlsafe(32),
    "redis_users": lambda redis, have: users(have["redis_password"]),
    "redis_url": lambda redis, have: f"rediss://{USER}:{have['redis_password']}@{redis}:6379/0?{TRUST}",
    "postgres_password": lambda redis, have: secrets.token_urlsafe(32),
    "admin_url": lambda redis, have: DATABASE.format(user=USER, password=have["postgres_password"]),
    "migrate_url": lambda redis, have: DATABASE.format(user="desk_schema", password=secrets.token_urlsafe(32)),
    "database_url": lambda redis, have: DATABASE.format(user="desk_rows", password=secrets.token_urlsafe(32)),
    "api_token": lambda redis, have: secrets.token_urlsafe(32),
    "flower_auth": lambda redis, have: f"{USER}:{secrets.token_urlsafe(24)}",
    "message_key": lambda redis, have: secrets.token_urlsafe(32),
    "grafana_password": lambda redis, have: secrets.token_urlsafe(24),
}


def make(folder: Path, hosts: Sequence[str] = ("redis",)) -> list[str]:
    """Write what is missing in the folder, and anew what is too old; return the names of what was written. hosts: names
    and addresses of Redis, besides localhost. Raises OSError, and ValueError for half of what belongs together."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    written = _pairs(folder, hosts)
    have: dict[str, str] = {}
    for name, new in MADE.items():
        path = folder / name
        found = path.read_text(encoding="utf-8").strip() if path.exists() else None
        if found is None or _outdated(name, found, have):
            _write(path, new(hosts[0], have).encode())
            written.append(name)
        have[name] = path.read_text(encoding="utf-8").strip()
    for path in (folder / name for name in BROUGHT if not (folder / name).exists()):
        path.touch()
        path.chmod(0o644)
        written.append(path.name)
    return sorted(written)


def _outdated(name: str, found: str, have: Mapping[str, str]) -> bool:
    """What Redis lets its users do is of this version, whatever an older set has; and in one from before there was a
    login of the services, they have the superuser's."""
    if name == "redis_users":
        return found != users(have["redis_password"]).strip()
    return name == "database_url" and found == have["admin_url"]


def users(password: str) -> str:
    """Return the users of Redis and what each may do."""
    return ACL.format(user=USER, digest=hashlib.sha256(password.encode()).hexdigest())


def _write(path: Path, content: bytes, mode: int = 0o444) -> None:
    path.unlink(missing_ok=True)  # an older one cannot be written to
    path.touch(mode=0o600)
    path.write_bytes(content if content.endswith(b"\n") else content + b"\n")
    path.chmod(mode)


def _pairs(folder: Path, hosts: Sequence[str]) -> list[str]:
    """Write the authority, and the certificate that it signs for Redis, where they are missing; return their names."""
    written = []
    authority, signer = folder / "authority", folder / "authority_key"
    if authority.exists() != signer.exists():
        raise ValueError(f"{folder} has one of authority and authority_key: bring the other back, or remove both")
    if not authority.exists():
        key = ec.generate_private_key(ec.SECP256R1())
        _write(signer, pem(key), 0o400)  # mounted nowhere
        _write(authority, root(key).public_bytes(serialization.Encoding.PEM))
        written += [authority.name, signer.name]
    certificate, own = folder / "redis_certificate", folder / "redis_key"
    if certificate.exists() and own.exists():
        return written
    loaded = serialization.load_pem_private_key(signer.read_bytes(), None)
    if not isinstance(loaded, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{signer} is no key of an elliptic curve: remove it and authority, and make new ones")
    key = ec.generate_private_key(ec.SECP256R1())
    signed = server(key, x509.load_pem_x509_certificate(authority.read_bytes()), loaded, hosts)
    _write(own, pem(key))
    _write(certificate, signed.public_bytes(serialization.Encoding.PEM))
    return [*written, certificate.name, own.name]


def root(key: ec.EllipticCurvePrivateKey, days: int = AUTHORITY_DAYS) -> x509.Certificate:
    """Return the certificate of a private authority, by which clients verify what it signs."""
    name = _named("chordesk private authority")
    signs = x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    return (
        _certificate(name, name, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(signs, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def server(
    key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    signer: ec.EllipticCurvePrivateKey,
    hosts: Sequence[str],
    days: int = SERVER_DAYS,
) -> x509.Certificate:
    """Return a server's certificate, signed by an authority, for its hosts and this machine's own names."""
    names = x509.SubjectAlternativeName([_general(host) for host in dict.fromkeys((*hosts, "localhost", "127.0.0.1"))])
    return (
        _certificate(_named(hosts[0]), authority.subject, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(names, critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _certificate(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_ERROR)
        .not_valid_after(now + dt.timedelta(days=days))
    )


def pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a key as PEM, not encrypted."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def main(arguments: list[str]) -> int:
    """Make the secrets and name the new ones. Returns 0, 1 when that fails, 2 for wrong arguments."""
    if not arguments:
        print("usage: credentials.py FOLDER [HOST of Redis ...]", file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    older = (folder / "authority").exists()
    try:
        new = make(folder, arguments[1:] or ("redis",))
    except (OSError, ValueError) as error:
        print(f"the secrets were not made: {error}", file=sys.stderr)
        return 1
    print(f"{folder}: {'new: ' + ', '.join(new) if new else 'all are there'}")
    if new and older:
        print("an older set lacked these; the others are as they were. Start the fleet anew: docker compose up")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
