"""`reliable-rx inspect`: what is in a store. It only reads, so another process may own the store meanwhile.

The rows are those that a recovery would load. They are unpickled, so what they refer to must be importable: run it
where the app was run, or name the app.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from checkpoint import SqliteStore
from checkpoint.codec import decode
from checkpoint.store import Recovered, StoreReader
from hosting.cli.loading import load_app, reach
from hosting.cli.wording import BadUsage, cell, moment, plural, say, size, span, table
from hosting.snapshot import TopRow, read_records
from reliable_rx import Limits, Query
from reliable_rx.identity import lower_keys
from reliable_rx.query import Inner
from reliable_rx.rows import Loader

SHOWN_MAX = 20
VALUE_CHARACTERS_MAX = 160


def inspect(directory: Path, *, state: str | None, app: str | None, everything: bool) -> int:
    """Print what is in the store, or the *state* of one query."""
    reach(str(Path.cwd()))
    if app is not None:
        load_app(app)
    with SqliteStore.read_only(directory) as store:
        recovered = store.recover()
        if recovered is None:
            turns = store.journal.last_turn
            say(f"{directory} holds no checkpoint yet; {plural(turns, 'turn')} in the journal")
            return 0
        rows = read_rows(recovered.chunks)
        lines = overview(store, recovered, rows, everything) if state is None else states(rows, state, everything)
        for line in lines:
            say(line)
    return 0


def read_rows(chunks: Sequence[bytes]) -> dict[Any, Any]:
    """Decode the rows. *Raises* `BadUsage` if what they refer to cannot be imported."""
    try:
        return read_records(chunks, Loader({}))
    except (ImportError, AttributeError) as error:
        raise BadUsage(
            f"the store refers to code that is not found here ({error}); "
            f"run this where the app was run, or name it with --app MODULE:APP"
        ) from error


def tops(rows: dict[Any, Any]) -> list[TopRow]:
    """Return the standing queries in the order of their creation."""
    found = [TopRow(key[1], *row) for key, row in rows.items() if key[0] == "top"]
    return sorted(found, key=lambda top: top.born)


def overview(store: StoreReader, recovered: Recovered, rows: dict[Any, Any], everything: bool) -> Iterator[str]:
    meta = decode(recovered.meta)
    for warning in recovered.fallbacks:
        yield f"warning: {warning}"
    yield from generations(store, recovered)
    yield from positions(meta)
    queries = tops(rows)
    yield from query_table(queries, rows, meta, everything)
    yield from plans(queries, rows, everything)


def generations(store: StoreReader, recovered: Recovered) -> Iterator[str]:
    now = time.time()
    yield "generations"
    yield from table(
        ("number", "kind", "turn", "rows", "size", "committed"),
        (
            (g.generation, g.kind, g.turn, g.rows, size(g.bytes), f"{span(max(0.0, now - g.committed_at))} ago")
            for g in store.generations()
        ),
    )
    ahead = store.journal.last_turn - recovered.turn
    yield f"  recovery takes generation {recovered.generation:,} and {plural(max(0, ahead), 'turn')} of the journal"


def positions(meta: dict[str, Any]) -> Iterator[str]:
    yield f"\nsources, as of {clock(meta['engine']['clock'])}"
    yield from table(
        ("source", "partition", "next id", ""),
        (
            (source, partition, position, "ended" if (source, partition) in meta["ended"] else "")
            for (source, partition), position in sorted(meta["positions"].items())
        ),
    )


def clock(time: float) -> str:
    return moment(time) if time else "the beginning of time"


def query_table(
    queries: Sequence[TopRow], rows: dict[Any, Any], meta: dict[str, Any], everything: bool
) -> Iterator[str]:
    counts: dict[Any, int] = {}
    for key in rows:
        owner = key[1] if key[0] == "top" else key[0]
        counts[owner] = counts.get(owner, 0) + 1
    shown = queries if everything else queries[:SHOWN_MAX]
    yield f"\n{plural(len(queries), 'standing query', 'standing queries')}"
    yield from table(
        ("name", "status", "emitted", "rows", "on error", "sinks have"),
        ((q.name, q.status, q.emitted, counts[q.name], q.policy, held(meta["holders"].get(q.name, {}))) for q in shown),
    )
    for q in shown:
        if q.error is not None:
            yield f"  {q.name}: {type(q.error).__name__}: {q.error}"
    yield from left_out(len(queries) - len(shown))


def held(holders: dict[str, int]) -> str:
    return ", ".join(f"{position:,}" for position in holders.values()) or "–"


def left_out(count: int) -> Iterator[str]:
    if count > 0:
        yield f"  … and {count:,} more; --all shows them"


def plans(queries: Sequence[TopRow], rows: dict[Any, Any], everything: bool) -> Iterator[str]:
    """Draw every plan once, under the queries that share it."""
    sharing: dict[str, list[TopRow]] = {}
    for query in queries:
        sharing.setdefault(query.plan, []).append(query)
    chosen = list(sharing.items())
    for identity, those in chosen if everything else chosen[:SHOWN_MAX]:
        plan, limits = rows["plan", identity]
        names = ", ".join(q.name for q in those[:3]) + (f" and {len(those) - 3:,} more" if len(those) > 3 else "")
        yield f"\n{names}" + ("" if limits == Limits() else f"   {limits}")
        drawing = Query(lower_keys(plan, those[0].keys)).explain()
        yield from (f"  {line}" for line in drawing.splitlines())
    yield from left_out(0 if everything else len(chosen) - SHOWN_MAX)


# -- state


def states(rows: dict[Any, Any], name: str, everything: bool) -> Iterator[str]:
    """Write the state of one query, row by row. *Raises* `BadUsage` for an unknown query."""
    top = next((each for each in tops(rows) if each.name == name), None)
    if top is None:
        known = [each.name for each in tops(rows)][:SHOWN_MAX]
        raise BadUsage(f"the store has no query {name!r}; it has {', '.join(known) or 'none'}")
    signatures = {key[1]: row for key, row in rows.items() if key[0] == "signature"}
    yield f"{name}   {top.status}, {top.emitted:,} emitted"
    yield from state_of(signatures[top.signature], top.row, "  ")
    inner = [(key, row) for key, row in rows.items() if key[0] == name and len(key) > 2]
    for key, row in inner if everything else inner[:SHOWN_MAX]:
        yield f"  {place(key[1:])}"
        if row[0] == "inner":
            yield from state_of(signatures[row[2]], row[3], "    ")
        for path, _, number, attached in row[2] if row[0] == "subject" else ():
            yield from state_of(signatures[number], attached, "    ") or (f"    {path}",)
    yield from left_out(0 if everything else len(inner) - SHOWN_MAX)


def place(address: Sequence[Any]) -> str:
    """Write where a row is: the operator that owns it and the key, outermost first."""
    steps = [f"{address[i + 1]} [{address[i + 2]!r}]" for i in range(0, len(address), 3)]
    return " › ".join(steps)


def state_of(signature: Any, row: Any, indent: str) -> Iterator[str]:
    """Write the fields of every operator, and its timers."""
    _, _, values, timers, _ = row
    stateful = [(path, fields) for path, _, _, fields in signature if fields]
    for (path, fields), saved in zip(stateful, values, strict=True):
        if saved is not None:
            pairs = ", ".join(f"{field} = {shown(value)}" for field, value in zip(fields, saved, strict=True))
            yield f"{indent}{path}   {pairs}"
    for index, tag, due, _ in timers:
        yield f"{indent}{signature[index][0]}   timer {tag!r} due {cell(due) if due < 1e8 else moment(due)}"


def shown(value: Any) -> str:
    text = repr(value) if not isinstance(value, Inner) else "<inner>"
    return text if len(text) <= VALUE_CHARACTERS_MAX else text[: VALUE_CHARACTERS_MAX - 1] + "…"
