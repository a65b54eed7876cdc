"""`holdfast demo`: counts the words of some files, with a worker killed and a file that is not text.

The demo drives the job with ordinary commands, and shows each of them as it runs.
"""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast import InvalidInput, Refused, Scope, SyncClient
from holdfast.apps.staging import DemoFailed, Services, answer_of, run_shown, step, typed
from holdfast.apps.words.handlers import REPORT, TEXTS
from holdfast.extend.commands import say, use_database
from holdfast.extend.settings import names_database, tenant

WORKFLOW = Path(__file__).with_name("words.yaml")
FILES = 40
BAD = 23
DONE_BEFORE_THE_KILL = 12
SEED = 7
SENTENCE = (
    "the harbour was quiet and a low fog hid every mast until noon when one ship after another set sail for the"
    " northern islands with timber rope salt and letters that somebody had waited for since the first storm of spring"
)
# A short lease, so that the tasks of the killed worker soon run again; and few tasks that it holds and has not begun.
ENVIRONMENT = {
    "HOLDFAST_LEASE_SECONDS": "2",
    "HOLDFAST_RENEW_SECONDS": "0.5",
    "HOLDFAST_CLAIM_BATCH": "8",
    "HOLDFAST_GRACE_SECONDS": "5",
}
WORKER = ["worker", "--queue", "demo", "--handlers", "holdfast.apps.words", "--concurrency", "4"]


@dataclass
class Demo:
    """One execution of the demo, with its files and its processes."""

    home: Path
    """As it is typed: the commands that the demo shows name files in it."""
    services: Services = field(init=False)

    def __post_init__(self) -> None:
        self.services = Services(self.folder, ENVIRONMENT)

    @property
    def folder(self) -> Path:
        return self.home / "demo" / "words"

    @property
    def bad_file(self) -> Path:
        return self.folder / TEXTS / _name(BAD)

    def run(self) -> dict[str, Any]:
        """Run the whole demo; returns what it found."""
        if names_database():
            raise InvalidInput(
                "The demo uses its own Postgres, and HOLDFAST_DATABASE_URL or the project file names another database.",
                remedy="Run it in an empty folder: env -u HOLDFAST_DATABASE_URL holdfast demo",
            )
        with self._alone():
            self._write_texts()
            job_id = self._submit()
            with use_database(None) as url, SyncClient.connect(url, Scope(tenant=tenant())) as client:
                self._follow(client, job_id)
                self._recover(client, job_id)
                return self._measured(client, job_id)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Only one demo at a time may use the folder."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.folder.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise Refused(
                f"Another demo is running in {self.folder}.", remedy="Wait for it, or run this one in another folder."
            ) from None
        finally:
            os.close(lock)

    def _write_texts(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / TEXTS).mkdir(parents=True)
        shutil.copy(WORKFLOW, self.folder)
        choose = random.Random(SEED)
        for number in range(1, FILES + 1):
            words = choose.choices(SENTENCE.split(), k=choose.randint(60, 200))
            (self.folder / TEXTS / _name(number)).write_text(" ".join(words) + "\n", encoding="utf-8")
        # What a copy looks like that broke off and continued with another file.
        self.bad_file.write_bytes(self.bad_file.read_bytes()[:200] + b"\xff\xd8\xff\xe0" + bytes(range(256)))
        step(f"Wrote {FILES} texts to {self.folder / TEXTS}. One of them is broken: {self.bad_file.name}")

    def _submit(self) -> str:
        step("Starting Postgres, an orchestrator and a worker, each in its own process")
        submit = ["submit", str(self.folder / WORKFLOW.name), "--input", f"folder={self.folder}", "--force"]
        self._serve(["orchestrator"])
        self._serve(WORKER)
        typed(submit)
        job_id = str(answer_of(submit)["job_id"])
        say(f"Job {job_id} counts the words of {FILES} texts.")
        return job_id

    def _serve(self, words: list[str]) -> subprocess.Popen[bytes]:
        typed(words, in_background=True)
        return self.services.start(*words)

    def _follow(self, client: SyncClient, job_id: str) -> None:
        """Watch the job until it ends. When a part is done, kill the worker, and start another."""
        victim = self.services.processes[-1]
        is_killed = False
        for job in client.watch(job_id, whole=False):
            counts = next(node.counts for node in job.nodes if node.node == "count")
            if is_killed or counts.completed < DONE_BEFORE_THE_KILL or job.is_terminal:
                continue
            is_killed = True
            os.killpg(victim.pid, signal.SIGKILL)
            victim.wait()
            say(f"\n$ kill -9 {victim.pid}")
            step(f"The worker is dead. {counts.completed} of {FILES} files are counted; its tasks are not lost")
            self._serve(WORKER)
        if not is_killed:
            raise DemoFailed("The job ended before the demo could kill a worker.", remedy="Run it again: holdfast demo")

    def _recover(self, client: SyncClient, job_id: str) -> None:
        step("The second worker has done the rest, but for the broken file. What survived:")
        run_shown(["status", job_id[-8:]])
        step("What the one command that continues would do:")
        run_shown(["plan", job_id[-8:]])
        step(f"Mending {self.bad_file}")
        self.bad_file.write_text("this letter arrived late but whole\n", encoding="utf-8")
        run_shown(["resume", job_id[-8:], "--yes"])
        run_shown(["watch", job_id[-8:]])

    def _measured(self, client: SyncClient, job_id: str) -> dict[str, Any]:
        job = client.job(job_id)
        events = list(client.events(job_id))
        counted = [one.index for one in events if one.event == "task_completed" and one.node == "count"]
        return {
            "job_id": job_id,
            "status": job.status,
            "generation": job.generation,
            "files": len(set(counted)),
            "words": job.result["words"],
            "counted_twice": len(counted) - len(set(counted)),
            "attempts_lost": sum(one.event == "worker_lost" for one in events),
            "report": str(self.folder / REPORT),
        }


def _name(number: int) -> str:
    return f"letter-{number:02}.txt"
