"""`reliable-rx store repair`: say what keeps a store from starting, what can be done, ask, do it, and report."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from checkpoint import SqliteStore
from hosting.app import App
from hosting.cli.loading import load_app, reach
from hosting.cli.mend import bare
from hosting.cli.wording import BadUsage, log_nothing, plural, say
from hosting.evaluator import QueryEvaluator
from hosting.repair import Diagnosis, diagnose
from hosting.repair import repair as repair_store


def repair(directory: Path, *, app: str | None, yes: bool) -> int:
    """Look at the store in *directory*, and repair it if that is wanted."""
    if not (directory / "checkpoint.sqlite").is_file():
        raise BadUsage(f"there is no store in {directory}; give the directory of one")
    reach(str(Path.cwd()))
    declared = App() if app is None else load_app(app)
    with log_nothing(), SqliteStore(directory) as store:
        diagnosis = looked_at(directory, declared)
        if not diagnosis.findings:
            say(f"{directory} starts as it is; there is nothing to repair")
            return 0
        for each in diagnosis.findings:
            say(str(each))
        if not yes and not agreed(len(diagnosis.findings)):
            say("nothing was changed")
            return 1
        with closing(bare(declared, store, strict=False)) as evaluator:
            queries = repair_store(evaluator, diagnosis)
    say(f"repaired: the store has {plural(len(queries), 'query', 'queries')}")
    for name, status in queries.items():
        say(f"  {name}: {status}")
    return 0


def looked_at(directory: Path, declared: App) -> Diagnosis:
    """Diagnose a copy of the store, so that looking changes nothing."""
    with copied(directory) as copy:
        stores: list[SqliteStore] = []

        def make() -> QueryEvaluator:
            for each in stores:
                each.close()
            stores[:] = [SqliteStore(copy)]
            return bare(declared, stores[0], strict=False)

        try:
            return diagnose(make)
        finally:
            for each in stores:
                each.close()


@contextmanager
def copied(directory: Path) -> Iterator[Path]:
    """Copy a store that nothing runs on to a place beside it, for as long as it is looked at."""
    with tempfile.TemporaryDirectory(prefix=".repair-", dir=directory.parent) as beside:
        copy = Path(beside, "store")
        shutil.copytree(directory, copy, ignore=shutil.ignore_patterns("*.lock", "lock"))
        yield copy


def agreed(count: int) -> bool:
    """Ask whether to go on. Whoever cannot be asked has not agreed."""
    try:
        return input(f"do {'this' if count == 1 else 'these'}? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
