"""The one certificate to trust when the model is served on loopback.

The app-server loads its trust roots for every model call, even over plain HTTP: with the system's bundle that
is most of a turn's cost. A loopback provider needs no roots at all, and an empty file is refused, so it gets
this one. Its private key was never kept, so nothing can be signed with it.
"""

from __future__ import annotations

from pathlib import Path

from chordesk.models.files import replacing

LOOPBACK_PEM = """\
-----BEGIN CERTIFICATE-----
MIIBsTCCAVegAwIBAgIUP/b8Mk9SJi1ccvRUKj70IgNAydYwCgYIKoZIzj0EAwIw
LTErMCkGA1UEAwwiY2hvcmRlc2sgbG9vcGJhY2sgKHRydXN0cyBub3RoaW5nKTAg
Fw0yNjExMjAxOTIxMjdaGA8yMTI2MTAyNzE5MjEyN1owLTErMCkGA1UEAwwiY2hv
cmRlc2sgbG9vcGJhY2sgKHRydXN0cyBub3RoaW5nKTBZMBMGByqGSM49AgEGCCqG
SM49AwEHA0IABGc9gNlW4Lf8iQ4/dcA22OswRkSfGXysbENOKqZFuL9AVswYG9Qe
SkzCfeyNw9Cd7fmWsPgx0mvx5VwSuM8PQK2jUzBRMB0GA1UdDgQWBBTekn1HOHb4
/TiJB59PCDkkF60Z+DAfBgNVHSMEGDAWgBTekn1HOHb4/TiJB59PCDkkF60Z+DAP
BgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCIQCFIYKmhne0bIH/3wBT
NYI/o7LsHKfUBFGRpHwhq6tLFwIgAxZWltyNT0RVfruxE5zt5ybAPeqI6//Lylb5
6R6KJt8=
-----END CERTIFICATE-----
"""


def write_loopback_pem(folder: Path) -> Path:
    """Write the certificate into the folder and return its path."""
    path = folder / "loopback.pem"
    with replacing(path) as file:
        file.write(LOOPBACK_PEM.encode("ascii"))
    return path
