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
from hosting.cli.mend import agreed, bare
from hosting.cli.scripts import is_loaded
from hosting.cli.store_status import left_open
from hosting.cli.wording import BadUsage, log_nothing, plural, say
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
        if not diagnosis.findings:
            say(f"{directory} starts as it is; there is nothing to repair")
            return 0
        elsewhere = app is None or ("__main__." in str([each.wrong for each in diagnosis.findings]) and not is_loaded())
        if elsewhere and any(each.depends_on_app for each in diagnosis.findings):
            found = "; ".join(f"{each.subject}: {each.wrong}" for each in diagnosis.findings)
            raise BadUsage(
                f"whether {directory} is well can only be said with its app, which has its sources and classes; give "
                f"--app MODULE:APP or, if classes of __main__ are missed, --app and the script that has them: {found}"
            )
        for each in diagnosis.findings:
            say(str(each))
        if not yes and not agreed(f"do {'this' if len(diagnosis.findings) == 1 else 'these'}?"):
            say("nothing was changed")
            return 1
        with closing(bare(declared, store, strict=False)) as evaluator:
            evaluator.reporter.hand_on(earlier)
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
            return diagnose(make).of(str(copy), str(directory))
        except ReliableRxError as error:
            raise type(error)(error.message.replace(str(copy), str(directory)), **error.fields) from error
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
