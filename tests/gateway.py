"""An HTTP gateway that can fail in every way, and the handlers that call it, as an app would write them."""

from __future__ import annotations

import os
import threading
import urllib.error
import urllib.request
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from holdfast import Context, ErrorCode, FailureClass, Transient, handler

GW_4XX = ErrorCode("GW_4XX", FailureClass.PERMANENT, "The gateway refused the request.")
GW_5XX = ErrorCode("GW_5XX", FailureClass.TRANSIENT, "The gateway failed.")
GW_UNAVAILABLE = ErrorCode("GW_UNAVAILABLE", FailureClass.TRANSIENT, "The gateway is down.", public="GW_5XX")
GW_TIMEOUT = ErrorCode("GW_TIMEOUT", FailureClass.TRANSIENT, "The gateway is slow.")
URL = "HOLDFAST_TEST_GATEWAY"

Mode = Literal["ok", "bad request", "bad gateway", "busy", "silent", "gone"]


def call(number: Any) -> str:
    try:
        with urllib.request.urlopen(f"{os.environ[URL]}/{number}", timeout=1.0) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 503:
            raise
        raise (GW_4XX if error.code < 500 else GW_5XX)(f"the gateway answered {error.code}") from error
    except TimeoutError as error:
        raise GW_TIMEOUT() from error
    except urllib.error.URLError as error:
        raise GW_UNAVAILABLE() from error


@handler("gateway.convert")
def convert(number: int) -> str:
    return call(number)


@handler("gateway.guarded")
def guarded(numbers: list[int], *, ctx: Context) -> list[str]:
    answers = []
    for number in numbers:
        with ctx.breaker("gateway"):
            answers.append(call(number))
    return answers


@handler("gateway.check")
def check() -> None:
    if call("health") != "well: health":
        raise Transient("not well")


class Gateway:
    """A real HTTP service; `mode` determines its behaviour from the next request on."""

    def __init__(self) -> None:
        self.mode: Mode = "ok"
        self.asked: Counter[str] = Counter()
        self.at_once = self.most_at_once = 0
        self.seconds = 0.0
        """How long it works on an answer."""
        self._lock = threading.Lock()
        gateway = self

        class Answering(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                gateway._answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            request_queue_size = 128

        self._server = Server(("127.0.0.1", 0), Answering)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Gateway:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the service, so that it refuses connections."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        with self._lock:
            self.asked[request.path[1:]] += 1
            mode = self.mode
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        # An answer that is written may be followed by the next request before this thread goes on.
        threading.Event().wait(1.5 if mode == "silent" else self.seconds)
        with self._lock:
            self.at_once -= 1
        if mode == "silent":
            return
        status = {"ok": 200, "bad request": 400, "bad gateway": 502, "busy": 503}[mode]
        body = f"well: {request.path[1:]}".encode()
        request.send_response(status)
        if mode == "busy":
            request.send_header("Retry-After", "2")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)
