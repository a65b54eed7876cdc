"""A file server for the tests of sources: ranges, signed queries, paths of an object store, and failures on demand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit

SIGNATURE = "sig=s3cr3t-signature&se=2030"


@dataclass
class Files:
    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    etag: str = '"one"'
    breaks_after: int | None = None
    """The next answer ends after this number of bytes, without an error."""
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    knows_ranges: bool = True
    signed: bool = False
    asked: list[tuple[str, str | None]] = field(default_factory=list)


@contextmanager
def serving(files: Files) -> Iterator[Files]:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts, wanted = urlsplit(self.path), self.headers.get("Range")
            files.asked.append((parts.path, wanted))
            content = files.files.get(parts.path)
            if files.status is not None:
                return self.send(files.status, b"not now", files.headers)
            if files.signed and parts.query != SIGNATURE:
                return self.send(403, b"no signature", {})
            if content is None:
                return self.send(404, b"nothing here", {})
            first = int(wanted.removeprefix("bytes=").partition("-")[0]) if wanted and files.knows_ranges else 0
            headers = {"ETag": files.etag, "Last-Modified": "Wed, 21 Oct 2015 07:28:00 GMT"}
            if first:
                headers["Content-Range"] = f"bytes {first}-{len(content) - 1}/{len(content)}"
            return self.send(206 if first else 200, content[first:], headers)

        do_HEAD = do_GET  # noqa: N815 - the name is the library's.

        def send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            length = str(len(body))
            # Reset before the client gets an answer: its test may continue at once and ask for the next failure.
            if files.breaks_after is not None:
                body, files.breaks_after = body[: files.breaks_after], None
            self.send_response(status)
            for name, value in ({"Content-Length": length} | headers | {"Connection": "close"}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    files.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield files
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
