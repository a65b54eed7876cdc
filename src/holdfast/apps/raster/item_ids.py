"""The id that the item of a file gets in a catalog. Needs no GDAL."""

from __future__ import annotations

import hashlib
import re
from pathlib import PurePosixPath

ID_CHARACTERS = 200
DIGEST_CHARACTERS = 10
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.]*(/[A-Za-z0-9_.]+)+\.tif")
"""Names without hyphens or special characters: replacing their slashes by hyphens cannot make two of them equal."""


def item_id(name: str) -> str:
    """The id for a name: `silver/x/cog.tif` becomes `silver-x-cog`. It has no slashes because it is used in URLs.

    Different names have different ids: if another name could have the same plain form, a digest is appended.
    """
    plain_form = re.sub(r"[^A-Za-z0-9_.-]", "-", str(PurePosixPath(name).with_suffix("")))
    if _PLAIN.fullmatch(name) and len(plain_form) <= ID_CHARACTERS and not plain_form.endswith(".json"):
        return plain_form
    digest = f"~{hashlib.sha256(name.encode()).hexdigest()[:DIGEST_CHARACTERS]}"
    return plain_form.lstrip(".-")[-(ID_CHARACTERS - len(digest)) :].lstrip(".-") + digest
