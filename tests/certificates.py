"""Certificates for tests, made with the openssl command: a CA, a server, a client, and a CA that nobody trusts."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

KEY_PASSWORD = "key-secret"
_EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")


@dataclass(frozen=True)
class Certificates:
    """PEM files. The server's certificate is for 127.0.0.1 only, so `localhost` does not match it."""

    home: Path

    @property
    def ca(self) -> str:
        return str(self.home / "ca.pem")

    @property
    def other_ca(self) -> str:
        return str(self.home / "other-ca.pem")

    @property
    def server(self) -> str:
        """Certificate and key in one file, as Kafka reads it."""
        return str(self.home / "server-bundle.pem")

    @property
    def client(self) -> str:
        return str(self.home / "client.pem")

    @property
    def client_key(self) -> str:
        return str(self.home / "client.key")

    @property
    def encrypted_key(self) -> str:
        return str(self.home / "client-encrypted.key")


def make_certificates(home: Path) -> Certificates:
    """All files in `home`."""
    for name in ("ca", "other-ca"):
        _openssl(home, "req", "-x509", "-nodes", *_EC, "-days", "2", "-subj", f"/CN={name}",
                 "-keyout", f"{name}.key", "-out", f"{name}.pem")  # fmt: skip
    _sign(home, "server", "subjectAltName=IP:127.0.0.1")
    _sign(home, "client", "extendedKeyUsage=clientAuth")
    bundle = home / "server-bundle.pem"
    bundle.write_text((home / "server.key").read_text() + (home / "server.pem").read_text())
    _openssl(home, "pkcs8", "-topk8", "-in", "client.key", "-out", "client-encrypted.key",
             "-passout", f"pass:{KEY_PASSWORD}")  # fmt: skip
    return Certificates(home)


def _sign(home: Path, name: str, extension: str) -> None:
    _openssl(
        home,
        "req",
        "-new",
        "-nodes",
        *_EC,
        "-subj",
        f"/CN={name}",
        "-keyout",
        f"{name}.key",
        "-out",
        f"{name}.csr",
    )
    (home / f"{name}.ext").write_text(extension + "\n")
    _openssl(home, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
             "-days", "2", "-extfile", f"{name}.ext", "-out", f"{name}.pem")  # fmt: skip


def _openssl(home: Path, *arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], cwd=home, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
