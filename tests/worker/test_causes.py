"""What an exception carries beyond its message."""

from __future__ import annotations

import email.utils
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from holdfast.worker.causes import causes


@pytest.fixture
def busy_service() -> Iterator[str]:
    """Answers 503 with the Retry-After that the path asks for."""

    class Busy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(503)
            self.send_header("Retry-After", self.path[1:].replace("_", " "))
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Busy) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def failure_of(url: str) -> urllib.error.HTTPError:
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(url)
    raised.value.close()
    return raised.value


def command_failure(code: str) -> subprocess.CalledProcessError:
    with pytest.raises(subprocess.CalledProcessError) as raised:
        subprocess.run([sys.executable, "-c", code], check=True)
    return raised.value


def test_the_retry_after_of_an_upstream_is_found(busy_service: str) -> None:
    assert causes(failure_of(f"{busy_service}/17")) == {"retry_after_seconds": 17.0}


def test_a_retry_after_may_be_a_date(busy_service: str) -> None:
    date = email.utils.formatdate(time.time() + 3600, usegmt=True).replace(" ", "_")
    assert 3500 < causes(failure_of(f"{busy_service}/{date}"))["retry_after_seconds"] <= 3600


def test_an_unreadable_retry_after_is_ignored(busy_service: str) -> None:
    assert causes(failure_of(f"{busy_service}/soon")) == {}


def test_the_exit_code_of_a_command_is_found() -> None:
    assert causes(command_failure("raise SystemExit(3)")) == {"exit_code": 3}


def test_a_command_that_a_signal_ended_has_128_and_the_signal() -> None:
    assert causes(command_failure("import os; os.kill(os.getpid(), 9)")) == {"exit_code": 137}


def test_the_cause_of_an_exception_is_read_too() -> None:
    with pytest.raises(RuntimeError) as raised:
        raise RuntimeError("conversion failed") from command_failure("raise SystemExit(5)")
    assert causes(raised.value) == {"exit_code": 5}


def test_an_ordinary_exception_has_no_details() -> None:
    assert causes(ValueError("no")) == {}


def test_exceptions_that_cause_each_other_are_not_followed_for_ever() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    assert causes(one) == {}
