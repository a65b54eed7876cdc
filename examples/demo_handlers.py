"""The handlers of demo.yaml: a little real work, and a seeded share of attempts that fail on the way."""

from __future__ import annotations

import hashlib
import random
from typing import Any

from holdfast import Context, Transient, handler

FAILURE_SHARE = 0.12
KINDS = ("tif", "csv", "json", "pdf")


@handler("demo.inventory")
def inventory(files: int, seed: int) -> dict[str, Any]:
    """What is there: names and sizes, the same ones for the same seed."""
    chance = random.Random(seed)
    found = [
        {"name": f"file_{number:04}.{chance.choice(KINDS)}", "kilobytes": chance.randint(20, 200)}
        for number in range(files)
    ]
    return {"files": found, "kilobytes": sum(file["kilobytes"] for file in found)}


@handler("demo.check")
def check(file: dict[str, Any], seed: int, *, ctx: Context) -> dict[str, Any]:
    """Read the file and compute its checksum. Now and then the disk is busy: that attempt fails."""
    if ctx.attempt <= 3 and random.Random(f"{seed} {file['name']} {ctx.attempt}").random() < FAILURE_SHARE:
        raise Transient("the disk was busy", code="DISK_BUSY")
    content = random.Random(file["name"]).randbytes(1024) * file["kilobytes"]
    return {"name": file["name"], "kilobytes": file["kilobytes"], "sha256": _checksum(content)}


def _checksum(content: bytes) -> str:
    """Stretched, as a careful archive would do it: this is where the time goes."""
    salt = hashlib.sha256(content).digest()
    return hashlib.pbkdf2_hmac("sha256", content[:1024], salt, 40_000).hex()


@handler("demo.publish")
def publish(checked: list[dict[str, Any]]) -> dict[str, Any]:
    """The list as others will use it: how much there is, and one checksum over all."""
    whole = hashlib.sha256("".join(file["sha256"] for file in checked).encode()).hexdigest()
    kilobytes = sum(file["kilobytes"] for file in checked)
    return {
        "message": f"{len(checked)} files, {kilobytes / 1000:.1f} MB: all of them are fine",
        "sha256": whole[:16],
    }


@handler("demo.complain")
def complain(expected: int, found: int) -> dict[str, str]:
    return {"message": f"only {found} of {expected} files could be checked"}
