"""What a store has and the app does not declare: queries, which go on, and positions of sources.

The start tells which queries go on. They may have been created at run time, or an earlier version of the app declared
them: the store cannot know, and to drop state that somebody wants is worse than to keep what nobody wants. Rejected:
disposing of them (a module that was edited for a moment would lose its state), a warning (for who creates queries at
run time nothing is wrong).

Their names stay taken: who reads a name would have both, the query and the source that is called as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from checkpoint.store import StoreReader
from hosting.edges.ingress import Intake
from hosting.engine.engine import QueryEngine
from hosting.reports.log import LOG
from hosting.reports.store_commands import command_on
from reliable_rx.errors import CheckpointRefused
from reliable_rx.names import query_of

SHOWN_MAX = 10


def undeclared(queries: Iterable[str], declared: Collection[str]) -> list[str]:
    """Return which of the *queries* that a store has the app does not declare, if it declares any."""
    return [name for name in queries if name not in declared and query_of(name) == name] if declared else []


def told(names: list[str], store: StoreReader) -> str:
    """Say what becomes of the queries called *names* of *store*, and how to be rid of them."""
    shown = ", ".join(map(repr, names[:SHOWN_MAX])) + (", ..." if len(names) > SHOWN_MAX else "")
    who = "1 stored query goes" if len(names) == 1 else f"{len(names):,} stored queries go"
    ways = told_to_dispose(names, store)
    return f"{who} on without being declared: {shown}; if not wanted any more, end them with {ways}"


def told_to_dispose(names: list[str], store: StoreReader) -> str:
    """Say by what the queries called *names* of *store* are disposed of."""
    dispose = command_on(store, "dispose", names[0] if len(names) == 1 else "QUERY")
    if getattr(store, "group", None) is not None:
        return f"`{dispose}` while no node runs"
    return "evaluator.dispose(name)" + (f", or `{dispose}` on the stopped store" if dispose else "")


def tell_undeclared(names: list[str], store: StoreReader) -> None:
    """Say at the start which queries go on undeclared."""
    if names:
        LOG.info(told(names, store))


def check_stored_names(engine: QueryEngine, intake: Intake, declared: Iterable[str], store: StoreReader) -> None:
    """*Raises* `CheckpointRefused` if a source has the name of a stored query, or a query that of a former source."""
    for name in intake.sources:
        if name in engine.standing or name in engine.suspended:
            way = told_to_dispose([name], store)
            raise CheckpointRefused(
                f"source {name!r}: the name {name!r} is taken by a stored query that is not declared any more and goes "
                f"on, and who reads it would have both: dispose of it, which ends it for those that read it ({way}), "
                f"or call the source otherwise",
                what="query",
                where=name,
            )
    check_never_read(engine, intake, declared)


def check_never_read(engine: QueryEngine, intake: Intake, queries: Iterable[str]) -> None:
    """*Raises* `CheckpointRefused` if one of *queries*, not stored yet, has the name of a source that was read."""
    read = {source for (source, _), at in intake.absent.items() if at} | {source for source, _ in intake.absent_ended}
    for name in queries if read else ():
        if name in read and name not in engine.standing and name not in engine.suspended:
            raise CheckpointRefused(
                f"query {name!r}: the name {name!r} is taken by a source that the store has read and that is not "
                f"declared any more, and who read it would have both: call the query otherwise",
                what="source",
                where=name,
            )
