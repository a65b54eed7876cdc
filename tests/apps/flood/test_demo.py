"""`holdfast demo flood`, run in an empty folder, and then a second time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psutil
import psycopg
import pystac
import pytest

from holdfast.apps.catalog.postgres import PostgresCatalog
from holdfast.apps.demos import _where_the_ui_is
from holdfast.apps.flood.demo import Demo
from holdfast.embedded import watchdog
from holdfast.service.web_ui import packaged
from tests.embedded.test_server import wait_until
from tests.marks import IN_CHAOS, rest_in_chaos

HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
ITEMS = 16


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for process in processes_of(tmp_path):
        process.kill()


def processes_of(folder: Path) -> list[psutil.Process]:
    """All processes that use this folder as their home."""
    processes = []
    for process in psutil.process_iter():
        try:
            words, home = " ".join(process.cmdline()), process.environ().get("HOLDFAST_HOME")
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        if home == str(folder / "home") or str(folder) in words:
            processes.append(process)
    return processes


COMMAND = [HOLDFAST, "demo", "flood", "--region", "RWA", "--items", str(ITEMS), "--json"]


def environment(folder: Path) -> dict[str, str]:
    return os.environ | {"HOLDFAST_HOME": str(folder / "home"), "NO_COLOR": "1", "HOLDFAST_PORT": "0"}


def demo(folder: Path) -> dict[str, Any]:
    done = subprocess.run(
        COMMAND,
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.mark.parametrize("times", rest_in_chaos([1, 2], 1))
def test_the_demo_completes_its_job_and_can_be_run_again(folder: Path, times: int) -> None:
    jobs = {check_demo(folder) for _ in range(times)}
    assert len(jobs) == times
    wait_until(lambda: watchdog.is_free(folder / "home" / "server.lock"))
    wait_until(lambda: not processes_of(folder))


@IN_CHAOS
def test_a_demo_that_is_kept_shows_its_job_in_the_web_ui_until_ctrl_c(folder: Path) -> None:
    """Without npm there is no UI: then the demo goes on without it, and says so."""
    process = subprocess.Popen(
        [*COMMAND, "--keep"],
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if "Ctrl-C" in line:
            break
    report = json.loads(process.stdout.readline())
    if packaged().is_there:
        assert any("==> Watch it in a browser, once and within a minute: http://127.0.0.1:" in line for line in said)
        assert report["web_ui"].endswith(f"/jobs/{report['job_id']}")
        shown = httpx2.get(report["web_ui"])
        assert (shown.status_code, '<div id="root">' in shown.text) == (200, True)
    else:
        assert any("There is no web UI here" in line for line in said)
        assert report["web_ui"] is None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 0
    wait_until(lambda: not processes_of(folder))


def test_a_demo_goes_on_where_the_http_service_does_not_start(
    folder: Path, database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOLDFAST_HOME", str(folder / "home"))
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", database_url)
    # Without a key the service refuses to listen for other machines.
    monkeypatch.setenv("HOLDFAST_HOST", "0.0.0.0")
    show = Demo(folder, "RWA", 8)
    show.outputs.mkdir(parents=True)
    assert show.services.open_ui() is None
    show.services.stop()
    assert "There is no web UI: the HTTP service did not start. See " in capsys.readouterr().err
    assert (show.services.alive, show.link_to("1a2b3c4d")) == ([], None)


def test_the_end_of_a_demo_says_where_the_web_ui_is_and_how_to_sign_in() -> None:
    address = "http://127.0.0.1:8321/jobs/1a2b3c4d"
    kept = _where_the_ui_is(address, "http://127.0.0.1:8321/sign-in?code=c")
    assert address in kept and "sign in, once and within a minute: http://127.0.0.1:8321/sign-in?code=c" in kept
    ended = _where_the_ui_is(address, None)
    assert address in ended and "`holdfast up`" in ended and "make demo KEEP=1" in ended
    assert "make ui" in _where_the_ui_is(None, None)


@pytest.mark.skipif(not packaged().is_there, reason="the web UI is not built: npm cannot be reached")
def test_the_link_of_a_demo_signs_a_browser_in_and_shows_the_job(
    folder: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("HOME", str(folder / "home")), ("DATABASE_URL", database_url), ("PORT", "0")):
        monkeypatch.setenv(f"HOLDFAST_{name}", value)
    show = Demo(folder / "home", "RWA", 8)
    show.outputs.mkdir(parents=True)
    try:
        show.ui = show.services.open_ui()
        link = httpx2.URL(show.link_to("1a2b3c4d") or "")
        with httpx2.Client(base_url=f"http://{link.host}:{link.port}") as browser:
            assert browser.get(link).status_code == 200
            origin = {"Origin": f"http://{link.host}:{link.port}"}
            done = browser.post("/api/v1/session", data=dict(link.params), headers=origin)
            assert (done.status_code, done.headers["location"]) == (303, "/jobs/1a2b3c4d")
    finally:
        show.services.stop()


def check_demo(folder: Path) -> str:
    report = demo(folder)
    assert (report["status"], report["generation"]) == ("completed", 2)
    assert (report["stacks"], report["registered"], report["stacked_twice"]) == (ITEMS, ITEMS, 0)
    assert report["attempts_lost"] >= 0
    outputs = Path(report["outputs"])
    items = list(pystac.Catalog.from_file(str(outputs / "catalog" / "catalog.json")).get_items(recursive=True))
    assert len({item.id for item in items}) == ITEMS
    assert {item.properties["holdfast:job_id"] for item in items} == {report["job_id"]}
    for name in ("footprints.png", "contact-sheet.png"):
        assert (outputs / name).read_bytes().startswith(b"\x89PNG")
    assert not [path for path in (folder / "home" / "storage").rglob("*") if ".part" in path.name]
    assert (report["web_ui"] is not None) == packaged().is_there
    return str(report["job_id"])


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    """A process that takes the place of a worker."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True) as process:
        yield process
        process.kill()


class Looks:
    """What `watch --json` prints on a machine that is so busy that it looks only now and then."""

    def __init__(self, looks: Iterator[dict[str, Any]]) -> None:
        self.stdout = map(json.dumps, looks)

    def __enter__(self) -> Looks:
        return self

    def __exit__(self, *error: object) -> None:
        pass


def node(name: str, status: str, completed: int, running: int = 0) -> dict[str, Any]:
    counts = {"completed": completed, "running": running}
    return {"node": name, "stage": 1, "type": "fan_out", "status": status, "counts": counts, "progress": None}


def test_a_job_cannot_end_before_a_worker_was_killed_however_late_a_look_comes(
    folder: Path, database_url: str, victim: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    PostgresCatalog(database_url).make_ready()
    show = Demo(folder, "RWA", 8)
    monkeypatch.setattr(show, "_start_workers", lambda: victim)
    monkeypatch.setattr(show, "_work", lambda: None)

    def can_register() -> bool:
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("set lock_timeout = '50ms'")
            try:
                connection.execute("delete from stac.items")
            except psycopg.errors.LockNotAvailable:
                return False
            return True

    def looks() -> Iterator[dict[str, Any]]:
        yield {"nodes": [node("stack", "running", 0, 4)]}
        assert not can_register(), "the job would end"
        yield {"nodes": [node("stack", "completed", 8), node("register", "running", 0, 1)]}
        assert victim.wait(10) == -signal.SIGKILL
        assert can_register()
        yield {"nodes": [node("stack", "completed", 8), node("register", "failed", 0)]}

    monkeypatch.setattr("holdfast.apps.flood.demo.tethered", lambda *words, **options: Looks(looks()))
    show._follow(database_url, "1a2b3c4d")


_STARTS_A_SERVICE = """
import sys, time
from pathlib import Path
from holdfast.apps.flood.demo import Demo

demo = Demo(Path("home").absolute(), "RWA", 8)
demo.outputs.mkdir(parents=True)
print(demo.services.start("orchestrator").pid, flush=True)
sys.stdin.readline()
demo.services.keep()
"""


def _moment(url: str, which: str) -> Any:
    with psycopg.connect(url) as connection:
        (moment,) = connection.execute(f"select {which} from holdfast.orchestrators").fetchone() or (None,)
        return moment


@pytest.mark.parametrize(
    ("is_kept", "number"),
    [(False, signal.SIGKILL), (True, signal.SIGKILL), (True, signal.SIGINT)],
    ids=["killed", "killed while they are kept", "interrupted while they are kept"],
)
def test_services_of_a_demo_end_with_it_however_it_ends(
    is_kept: bool, number: signal.Signals, folder: Path, database_url: str
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _STARTS_A_SERVICE],
        cwd=folder,
        env=os.environ
        | {
            "HOLDFAST_HOME": str(folder / "home"),
            "HOLDFAST_DATABASE_URL": database_url,
            "HOLDFAST_OWNER_RENEW_SECONDS": "0.2",
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as parent:
        assert parent.stdin is not None and parent.stdout is not None
        service = psutil.Process(int(parent.stdout.readline()))
        log = folder / "home" / "demo" / "RWA" / "orchestrator-0.log"
        wait_until(lambda: "is running" in log.read_text())
        if is_kept:
            parent.stdin.write(b"\n")
            parent.stdin.close()
            assert parent.stderr is not None
            assert b"Ctrl-C stops it" in parent.stderr.readline() + parent.stderr.readline()
            kept_at = _moment(database_url, "max(now())")
            wait_until(lambda: _moment(database_url, "max(renewed_at)") > kept_at)
        parent.send_signal(number)
        assert parent.wait() == (0 if number is signal.SIGINT else -number)
    wait_until(lambda: not service.is_running() or service.status() == psutil.STATUS_ZOMBIE)
