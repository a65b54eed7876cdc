"""The handlers of `words.yaml`. A file gets its name when it is complete, so a kill leaves no half of one."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

from holdfast import Context, ErrorCode, FailureClass, handler

NOT_TEXT = ErrorCode("NOT_TEXT", FailureClass.PERMANENT, "A file is not UTF-8 text.")
TEXTS, COUNTS, REPORT = "texts", "counts", "report.txt"


@handler("words.list")
def list_texts(folder: str) -> list[str]:
    """The names of the text files in `folder/texts`."""
    return sorted(file.name for file in (Path(folder) / TEXTS).glob("*.txt"))


@handler("words.count")
def count(folder: str, name: str, pause_seconds_per_word: float = 0, *, ctx: Context) -> int:
    """Count the words of one text, and write them to `folder/counts`."""
    content = (Path(folder) / TEXTS / name).read_bytes()
    try:
        words = content.decode().split()
    except UnicodeDecodeError as problem:
        raise NOT_TEXT(f"{name} is not UTF-8 text: it has the byte {content[problem.start]:#04x}") from None
    time.sleep(pause_seconds_per_word * len(words))
    _write(Path(folder) / COUNTS / f"{name}.json", json.dumps({"name": name, "words": len(words)}))
    ctx.log("counted", name=name, words=len(words))
    return len(words)


@handler("words.report")
def report(folder: str, files: int, words: int) -> dict[str, Any]:
    """Write `folder/report.txt`: one line for each file, and the sum."""
    counts = [json.loads(file.read_text(encoding="utf-8")) for file in sorted((Path(folder) / COUNTS).glob("*.json"))]
    lines = [f"{one['words']:6,}  {one['name']}" for one in counts]
    _write(Path(folder) / REPORT, "\n".join([*lines, f"{words:6,}  in {files} files", ""]))
    return {"files": files, "words": words, "report": str(Path(folder) / REPORT)}


def _write(target: Path, text: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{uuid4().hex}")
    draft.write_text(text, encoding="utf-8")
    draft.replace(target)
