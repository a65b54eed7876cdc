"""An app with a hook, as a package that is installed on a path of its own: for this process, and for real ones."""

from __future__ import annotations

from pathlib import Path

MODULE = '''
import os
from pathlib import Path

from holdfast.extend.job_hooks import Client, EndedJob, hook

LEDGER = Path(os.environ["LEDGER"])


@hook("ledger.note")
async def note(ended: EndedJob, client: Client) -> None:
    """Writes each end down, with the number of jobs that the client sees."""
    seen = await client.jobs()
    words = (
        ended.delivery_id, ended.job_id, ended.tenant, ended.workflow_id, ended.status, ended.generation, ended.seq,
        client.scope.tenant, client.scope.actor.replace(" ", "-"), len(seen.jobs),
    )
    with (LEDGER / "ends").open("a") as file:
        file.write(" ".join(map(str, words)) + "\\n")
    if (LEDGER / "down").exists():
        raise RuntimeError("the ledger is down")
'''
HOOK = "ledger.note"


class HookApp:
    """Where the app is, and what its hook has written."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "site"
        self.ledger = folder / "ledger"
        for one in (self.path / "ledger_app-1.0.dist-info", self.ledger):
            one.mkdir(parents=True)
        (self.path / "ledger_app.py").write_text(MODULE)
        described = self.path / "ledger_app-1.0.dist-info"
        (described / "METADATA").write_text("Metadata-Version: 2.1\nName: ledger-app\nVersion: 1.0\n")
        (described / "entry_points.txt").write_text("[holdfast.hooks]\nledger = ledger_app\n")

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a process that has the app."""
        return {"PYTHONPATH": str(self.path), "LEDGER": str(self.ledger)}

    @property
    def ends(self) -> list[list[str]]:
        """The calls of the hook, in words."""
        file = self.ledger / "ends"
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []
