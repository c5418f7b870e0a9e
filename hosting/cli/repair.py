"""`reliable-rx store repair`: say what keeps a store from starting, what can be done, ask, do it, and report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from checkpoint import SqliteStore
from checkpoint.exchange import begin, commit
from checkpoint.store import Store
from hosting.app import App, sink_nowhere
from hosting.cli.damaged_files import PUT_RIGHT, fresh_files, held, is_damaged, mended
from hosting.cli.loading import load_for_store, reach
from hosting.cli.mend import only_turns
from hosting.cli.scripts import is_loaded
from hosting.cli.stores import StoreAddress, left_open
from hosting.cli.terminal import agreed, say, say_all
from hosting.cli.wording import BadUsage, log_nothing, plural
from hosting.evaluator import QueryEvaluator
from hosting.partitioned.opening import group_of
from hosting.repair import Diagnosis, Finding, diagnose
from hosting.repair import repair as repair_store
from hosting.sinks_ahead import Sinks
from reliable_rx.errors import ReliableRxError


def repair(address: StoreAddress, *, app: str | None, yes: bool) -> int:
    """Look at the store at *address*, and repair it if that is wanted."""
    group = None if address.folder is None else group_of(address.folder)
    if address.folder is not None and group is not None:
        return of_partition(address.folder, group[1], yes=yes)
    reach(str(Path.cwd()))
    declared = App() if app is None else load_for_store(app)
    earlier = left_open(address)
    with log_nothing(), kept_for_us(address) as owned:
        files, diagnosis = looked_at(address, declared)
        check_app(address, app, diagnosis)
        if diagnosis.refusal is None and not files:
            say(f"{address} starts as it is; there is nothing to repair")
            for each in diagnosis.notes:
                say(f"what its start does: {each.subject}: {each.wrong}")
            return 0
        findings = [*files, *diagnosis.findings]
        for each in findings:
            say_all(each.lines())
        wrong = diagnosis.refusal if not diagnosis.findings else diagnosis.remains
        if wrong is not None:
            say(f"no repair lets the app start: {wrong}; put that right first; nothing was changed")
            return 1
        if not yes and not agreed(f"do {'this' if len(findings) == 1 else 'these'}?"):
            say("nothing was changed")
            return 1
        queries = done(owned, declared, diagnosis, earlier)
    say(f"repaired: the store has {plural(len(queries), 'query', 'queries')}")
    for name, status in queries.items():
        say(f"  {name}: {status}")
    return 0


def of_partition(folder: Path, group: str, *, yes: bool) -> int:
    """Put the files of a partition's store right, where nothing is lost by that.

    Otherwise its turns would have to be taken, which nodes do, and its group would not learn what was given up.
    *Raises* `BadUsage`.
    """
    with held(folder):
        findings = mended(begin(folder))
        if not findings or {each.remedy for each in findings} != {PUT_RIGHT}:
            wrong = "; ".join(each.lines()[0] for each in findings) or "its files are whole"
            way = "start its nodes, or restore the group from a copy"
            raise BadUsage(
                f"this is the store of a partition of the group {group!r}, and no repair helps: {wrong}; {way}"
            )
        for each in findings:
            say_all(each.lines())
        if not yes and not agreed("do this?"):
            say("nothing was changed")
            return 1
        say(f"repaired; the files that were damaged are in {commit(folder)}")
    return 0


@contextmanager
def kept_for_us(address: StoreAddress) -> Iterator[Store | Path]:
    """Own the store, or, if its files are damaged, its folder alone."""
    if address.folder is None or not is_damaged(address.folder):
        with address.own() as store:
            yield store
    else:
        with held(address.folder):
            yield address.folder


def done(owned: Store | Path, declared: App, diagnosis: Diagnosis, earlier: list[dict[str, Any]]) -> dict[str, Any]:
    """Do what was found: to the store itself, or to a copy of it that takes its place."""

    def repaired(store: Store) -> dict[str, Any]:
        evaluator = only_turns(declared, store, strict=False)
        evaluator.reporter.hand_on(earlier)
        return repair_store(evaluator, diagnosis, sinks_of(declared))

    if not isinstance(owned, Path):
        return repaired(owned)
    with fresh_files(owned) as fresh, SqliteStore(fresh) as store:
        queries = repaired(store)
    say(f"the files that were damaged are in {commit(owned)}")
    return queries


def sinks_of(declared: App) -> Sinks:
    """Return what makes each sink of the app, by stream."""
    return [(stream, partial(sink_nowhere, stream, sink)) for stream, sink, _ in declared.sinks]


def check_app(address: StoreAddress, app: str | None, diagnosis: Diagnosis) -> None:
    """*Raises* `BadUsage` if what was found may only come from classes and sources that are not there."""
    found = [each for each in (*diagnosis.findings, *diagnosis.notes) if each.depends_on_app]
    if found and (app is None or ("__main__." in str([each.wrong for each in found]) and not is_loaded())):
        way = "and the script" if app is not None else "MODULE:APP (or the script)"
        missed = f"{found[0].subject}: {found[0].wrong}"
        raise BadUsage(f"give --app {way}: {address} needs sources and classes that are not here ({missed})")


class CopiedStore:
    """The copy of a store that an app belongs to."""

    def __init__(self, address: StoreAddress, app: App) -> None:
        self.address, self.app, self.sinks = address, app, sinks_of(app)
        self.store: Store | None = None

    def as_app(self) -> QueryEvaluator:
        return self.app.look(self._opened())

    def to_repair(self) -> QueryEvaluator:
        return only_turns(self.app, self._opened(), strict=False)

    def _opened(self) -> Store:
        self.close()
        self.store = self.address.own()
        return self.store

    def close(self) -> None:
        if self.store is not None:
            self.store.close()


def looked_at(address: StoreAddress, declared: App) -> tuple[list[Finding], Diagnosis]:
    """Diagnose a copy of the store, so that looking changes nothing; return what is wrong with files, and with it."""
    with address.copied() as (copied, told), closing(CopiedStore(copied, declared)) as copy:
        try:
            files = [] if copied.folder is None else mended(copied.folder)
            return files, diagnose(copy).of(told)
        except ReliableRxError as error:
            raise type(error)(told(error.message), **error.fields) from error
