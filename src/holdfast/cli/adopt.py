"""`holdfast adopt`: trust the database in this home from now on."""

from __future__ import annotations

from holdfast.cli.session import begin
from holdfast.cli.streams import answer_json, harmless, say
from holdfast.embedded.server import adopt
from holdfast.errors import ExitCode


def take_over(*, as_json: bool) -> int:
    data = adopt(begin().home)
    if as_json:
        answer_json({"adopted": str(data)})
    else:
        say(harmless(f"The database in {data} is trusted from now on."))
    return ExitCode.DONE
