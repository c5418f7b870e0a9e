"""`reliable-rx store repair`: say what keeps a store from starting, what can be done, ask, do it, and report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeGuard

from checkpoint import SqliteStore
from checkpoint.sealed_log.rows import KEYS_WAY
from checkpoint.sqlite.exchange import begin, commit
from checkpoint.store import Store
from hosting.app import App, sink_nowhere
from hosting.cli.damaged_files import OLDER_KEYS, PUT_RIGHT, fresh_files, held, is_damaged, mended, mended_store
from hosting.cli.loading import load_for_store, reach
from hosting.cli.mend import only_turns
from hosting.cli.scripts import is_loaded
from hosting.cli.stores import Database, StoreAddress, left_open, listed
from hosting.cli.terminal import agreed, say, say_all
from hosting.cli.wording import BadUsage, log_nothing, plural
from hosting.edges.sinks_ahead import Had, Sinks, opened_position, stored_position
from hosting.evaluator.evaluator import QueryEvaluator
from hosting.repair.repair import ITSELF, Diagnosis, Finding, diagnose
from hosting.repair.repair import repair as repair_store
from hosting.reports.partition_store import Group, belongs
from reliable_rx.errors import ReliableRxError
from reliable_rx.reliable import Inspectable, Sink

RESTORE_GROUP = "start its nodes, or restore the group from a copy"


def repair(address: StoreAddress, *, app: str | None, yes: bool) -> int:
    """Look at the store at *address*, and repair it if that is wanted."""
    group = address.group()
    if group is not None:
        return of_partition(address.folder, group, yes=yes)
    reach(str(Path.cwd()))
    declared = App() if app is None else load_for_store(app)
    earlier = left_open(address)
    closed = [] if yes else unasked(declared)
    with log_nothing(), kept_for_us(address) as owned:
        files, diagnosis = looked_at(address, declared, may_open=yes)
        check_app(address, app, [*files, *diagnosis.findings, *diagnosis.notes])
        if closed and not hopeless(diagnosis) and may_be_opened(closed):
            closed = []
            files, diagnosis = looked_at(address, declared, may_open=True)
        if diagnosis.refusal is None and not files:
            unseen = those_of(closed) if closed else "the sinks of its app, which --app names" if app is None else ""
            unknown = f", as far as is known without {unseen}" if unseen else ""
            say(f"{address} starts as it is{unknown}; there is nothing to repair")
            for each in diagnosis.notes:
                say(f"what its start does: {each.subject}: {each.wrong}")
            return 0
        findings = [*files, *diagnosis.findings]
        for each in findings:
            say_all(each.lines())
        if wrong := hopeless(diagnosis):
            say(f"no repair lets the app start: {wrong}; put that right first; nothing was changed")
            return 1
        if closed or not (yes or agreed(f"do {'this' if len(findings) == 1 else 'these'}?")):
            say(f"nothing was changed{f': that needs {those_of(closed)}' if closed else ''}")
            return 1
        queries = done(owned, declared, diagnosis, earlier)
    say(f"repaired: the store has {plural(len(queries), 'query', 'queries')}")
    for name, status in queries.items():
        say(f"  {name}: {status}")
    return 0


def hopeless(diagnosis: Diagnosis) -> str | None:
    """Return why the app would not start behind a repair either."""
    return diagnosis.remains if diagnosis.findings else diagnosis.refusal


def may_be_opened(closed: list[str]) -> bool:
    """Ask whether the sinks of the streams *closed* may be opened."""
    say(f"{those_of(closed)} tell which ids they have only when they are made and opened, which may write there")
    return agreed("open them?")


def those_of(streams: list[str]) -> str:
    return f"the sinks of {listed([repr(each) for each in streams])}"


def of_partition(folder: Path | None, group: Group, *, yes: bool) -> int:
    """Put the files of a partition's store right, where nothing is lost by that.

    Otherwise its turns would have to be taken, which nodes do, and its group would not learn what was given up.
    *Raises* `BadUsage`.
    """
    if folder is None:
        raise BadUsage(f"{belongs(group)}, and no repair helps in a database; {RESTORE_GROUP}")
    with held(folder):
        findings = mended(begin(folder))
        if not findings or {each.remedy for each in findings} != {PUT_RIGHT}:
            wrong = "; ".join(each.lines()[0] for each in findings) or "its files are whole"
            raise BadUsage(f"{belongs(group)}, and no repair helps: {wrong}; {RESTORE_GROUP}")
        for each in findings:
            say_all(each.lines())
        if not yes and not agreed("do this?"):
            say("nothing was changed")
            return 1
        say(f"repaired; the files that were damaged are in {commit(folder)}")
    return 0


@contextmanager
def kept_for_us(address: StoreAddress) -> Iterator[Store | Path | Database]:
    """Own the store, or, if its files are damaged, its folder alone; one whose rows are is owned once it is mended."""
    if not is_damaged(address):
        with address.own() as store:
            yield store
    elif isinstance(address, Database):
        yield address
    elif address.folder is not None:
        with held(address.folder):
            yield address.folder


def done(
    owned: Store | Path | Database, declared: App, diagnosis: Diagnosis, earlier: list[dict[str, Any]]
) -> dict[str, Any]:
    """Do what was found: to the store itself, or to a copy of it that takes its place."""

    def repaired(store: Store) -> dict[str, Any]:
        evaluator = only_turns(declared, store, strict=False)
        evaluator.reporter.hand_on(earlier)
        return repair_store(evaluator, diagnosis, sinks_of(declared, may_open=True))

    if isinstance(owned, Database):
        mended_store(owned)
        with owned.own() as store:
            return repaired(store)
    if not isinstance(owned, Path):
        return repaired(owned)
    with fresh_files(owned) as fresh, SqliteStore(fresh) as store:
        queries = repaired(store)
    say(f"the files that were damaged are in {commit(owned)}")
    return queries


def sinks_of(declared: App, *, may_open: bool) -> Sinks:
    """Return what tells the position of each sink of the app: of others than `Inspectable` ones if they *may open*."""
    found: list[tuple[str, Callable[[str], Had | None]]] = []
    for stream, sink, _ in declared.sinks:
        if is_inspectable(sink):
            found.append((stream, partial(stored_position, stream, sink)))
        elif may_open:
            found.append((stream, partial(opened_position, stream, partial(sink_nowhere, stream, sink))))
    return found


def unasked(declared: App) -> list[str]:
    """Name the streams of sinks that only tell what they have when they are made and opened."""
    return sorted({stream for stream, sink, _ in declared.sinks if not is_inspectable(sink)})


def is_inspectable(sink: Sink | Callable[..., Sink]) -> TypeGuard[Inspectable]:
    return isinstance(sink, Inspectable) and not isinstance(sink, type)


def check_app(address: StoreAddress, app: str | None, findings: Iterable[Finding]) -> None:
    """*Raises* `BadUsage` if what was found may only come from classes and sources that are not there."""
    found = [each for each in findings if each.depends_on_app]
    if found and (app is None or ("__main__" in str([each.wrong for each in found]) and not is_loaded())):
        way = "and the script (SCRIPT.py:__main__)" if app is not None else "MODULE:APP (or the script)"
        missed = f"{found[0].subject}: {found[0].wrong}"
        raise BadUsage(f"give --app {way}: {address} needs sources and classes that are not here ({missed})")


class CopiedStore:
    """The copy of a store that an app belongs to. Its sources learn of no checkpoint that is only the copy's."""

    def __init__(self, address: StoreAddress, app: App, *, may_open: bool) -> None:
        self.address, self.app, self.sinks = address, app, sinks_of(app, may_open=may_open)
        self.store: Store | None = None

    def as_app(self) -> QueryEvaluator:
        return self._untold(self.app.look(self._opened()))

    def to_repair(self) -> QueryEvaluator:
        return self._untold(only_turns(self.app, self._opened(), strict=False))

    def _untold(self, evaluator: QueryEvaluator) -> QueryEvaluator:
        evaluator.checkpointer.acknowledges = False
        return evaluator

    def _opened(self) -> Store:
        self.close()
        self.store = self.address.own()
        return self.store

    def close(self) -> None:
        if self.store is not None:
            self.store.close()


def looked_at(address: StoreAddress, declared: App, *, may_open: bool) -> tuple[list[Finding], Diagnosis]:
    """Diagnose a copy of the store, so that looking changes nothing; return what is wrong with files, and with it.

    With *may_open* the sinks that must be opened to be asked are.
    """
    with address.copied() as (copied, told), closing(CopiedStore(copied, declared, may_open=may_open)) as copy:
        try:
            return mended_store(copied), diagnose(copy).of(told)
        except ReliableRxError as error:
            message = told(error.message)
            if "key ring" in message:
                message = f"{ITSELF.sub('', message)}; {KEYS_WAY if address.folder is None else OLDER_KEYS}"
            raise type(error)(message, **error.fields) from error
