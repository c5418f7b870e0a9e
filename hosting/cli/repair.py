"""`reliable-rx store repair`: say what keeps a store from starting, what can be done, ask, do it, and report."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from checkpoint import SqliteStore
from hosting.app import App
from hosting.cli.loading import load_for_store, reach, stored_in
from hosting.cli.mend import only_turns
from hosting.cli.scripts import is_loaded
from hosting.cli.store_status import left_open
from hosting.cli.terminal import agreed, say, say_all
from hosting.cli.wording import BadUsage, log_nothing, plural
from hosting.evaluator import QueryEvaluator
from hosting.repair import Diagnosis, diagnose
from hosting.repair import repair as repair_store
from reliable_rx.errors import ReliableRxError


def repair(directory: Path, *, app: str | None, yes: bool) -> int:
    """Look at the store in *directory*, and repair it if that is wanted."""
    stored_in(directory)
    reach(str(Path.cwd()))
    declared = App() if app is None else load_for_store(app)
    earlier = left_open(directory)
    with log_nothing(), SqliteStore(directory) as store:
        diagnosis = looked_at(directory, declared)
        check_app(directory, app, diagnosis)
        if diagnosis.refusal is None:
            say(f"{directory} starts as it is; there is nothing to repair")
            for each in diagnosis.notes:
                say(f"what its start does: {each.subject}: {each.wrong}")
            return 0
        for each in diagnosis.findings:
            say_all(each.lines())
        wrong = diagnosis.refusal if not diagnosis.findings else diagnosis.remains
        if wrong is not None:
            say(f"no repair lets the app start: {wrong}; put that right first; nothing was changed")
            return 1
        if not yes and not agreed(f"do {'this' if len(diagnosis.findings) == 1 else 'these'}?"):
            say("nothing was changed")
            return 1
        evaluator = only_turns(declared, store, strict=False)
        evaluator.reporter.hand_on(earlier)
        queries = repair_store(evaluator, diagnosis)
    say(f"repaired: the store has {plural(len(queries), 'query', 'queries')}")
    for name, status in queries.items():
        say(f"  {name}: {status}")
    return 0


def check_app(directory: Path, app: str | None, diagnosis: Diagnosis) -> None:
    """*Raises* `BadUsage` if what was found may only come from classes and sources that are not there."""
    found = [each for each in (*diagnosis.findings, *diagnosis.notes) if each.depends_on_app]
    if found and (app is None or ("__main__." in str([each.wrong for each in found]) and not is_loaded())):
        way = "and the script" if app is not None else "MODULE:APP (or the script)"
        missed = f"{found[0].subject}: {found[0].wrong}"
        raise BadUsage(f"give --app {way}: {directory} needs sources and classes that are not here ({missed})")


class CopiedStore:
    """The copy of a store that an app belongs to."""

    def __init__(self, path: Path, app: App) -> None:
        self.path, self.app = path, app
        self.store: SqliteStore | None = None

    def as_app(self) -> QueryEvaluator:
        return self.app.look(self._opened())

    def to_repair(self) -> QueryEvaluator:
        return only_turns(self.app, self._opened(), strict=False)

    def _opened(self) -> SqliteStore:
        self.close()
        self.store = SqliteStore(self.path)
        return self.store

    def close(self) -> None:
        if self.store is not None:
            self.store.close()


def looked_at(directory: Path, declared: App) -> Diagnosis:
    """Diagnose a copy of the store, so that looking changes nothing."""
    with copied(directory) as path, closing(CopiedStore(path, declared)) as copy:
        try:
            return diagnose(copy).of(str(path), str(directory))
        except ReliableRxError as error:
            raise type(error)(error.message.replace(str(path), str(directory)), **error.fields) from error


@contextmanager
def copied(directory: Path) -> Iterator[Path]:
    """Copy a store that nothing runs on to a place beside it, for as long as it is looked at."""
    with tempfile.TemporaryDirectory(prefix=".repair-", dir=directory.parent) as beside:
        copy = Path(beside, "store")
        shutil.copytree(directory, copy, ignore=shutil.ignore_patterns("*.lock", "lock"))
        yield copy
