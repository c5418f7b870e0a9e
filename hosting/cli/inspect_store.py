"""`reliable-rx inspect`: what is in a store. It only reads, so another process may own the store meanwhile.

The rows are those that a recovery would load. They are unpickled, so what they refer to should be importable: run it
where the app was run, or name the app. What is not, and code of another interpreter, is shown by its name only.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from checkpoint.format.code import Makers, makers
from checkpoint.format.codec import decode_data
from checkpoint.format.salvage import OTHER_CODE, Unreadable, unreadable_in
from checkpoint.store import Recovered, StoreReader
from hosting.cli.loading import load_for_store, reach
from hosting.cli.stores import StoreAddress
from hosting.cli.terminal import say
from hosting.cli.wording import BadUsage, cell, moment, plural, size, span, table
from hosting.engine.failure import read_failure
from hosting.engine.hosted_query import TopRow
from hosting.engine.records import query_of, read_records
from hosting.engine.suspended import SUSPENDED
from hosting.reports.failure_summary import count_of
from reliable_rx import Limits, Query
from reliable_rx.errors import described
from reliable_rx.query.query import Inner
from reliable_rx.runtime.plan_keys import lower_keys
from reliable_rx.runtime.rows import Loader
from reliable_rx.shown import placed_repr

SHOWN_MAX = 20
VALUE_CHARACTERS_MAX = 160


def inspect(address: StoreAddress, *, state: str | None, app: str | None, everything: bool) -> int:
    """Print what is in the store, or the *state* of one query."""
    reach(str(Path.cwd()))
    if app is not None:
        load_for_store(app)
    with address.look() as store:
        recovered = store.recover()
        if recovered is None:
            turns = store.journal.last_turn
            say(f"{address} holds no checkpoint yet; {plural(turns, 'turn')} in the journal")
            return 0
        rows = read_rows(recovered.chunks)
        lines = overview(store, recovered, rows, everything) if state is None else states(rows, state, everything)
        for line in lines:
            say(line)
    return 0


def read_rows(chunks: Sequence[bytes]) -> dict[Any, Any]:
    """Decode the rows and the plans as far as that goes, and say what of them cannot be read here."""
    loader = Loader({})
    rows = read_records(chunks, loader, bears=Exception)
    missing = list(unreadable_in(rows)) if loader.lenient else []
    for key, row in rows.items():
        if key[0] == "plan":
            query, lost = decode_data(row[0])
            rows[key] = (query, row[1])
            missing += lost
    missing = [each for each in missing if each.reason != OTHER_CODE]  # those are said once, with who has written them
    if missing:
        say(f"warning: {parts_missing(missing)}")
    return rows


def parts_missing(parts: Sequence[Unreadable]) -> str:
    """Say which parts cannot be read here."""
    kinds = dict.fromkeys(f"{each.kind} ({each.reason})" for each in parts)
    shown = "; ".join(list(kinds)[:3]) + (f" and {len(kinds) - 3:,} more" if len(kinds) > 3 else "")
    return (
        f"parts of the store cannot be read here: {shown}; if they are the app's, run this where the app was run, or "
        f"name it with --app MODULE:APP"
    )


def tops(rows: dict[Any, Any]) -> list[TopRow]:
    """Return the standing queries in the order of their creation."""
    found = [TopRow(key[1], *row) for key, row in rows.items() if key[0] == "top"]
    found += [TopRow(*row[0])._replace(status=SUSPENDED) for key, row in rows.items() if key[0] == SUSPENDED]
    return sorted(found, key=lambda top: top.born)


def overview(store: StoreReader, recovered: Recovered, rows: dict[Any, Any], everything: bool) -> Iterator[str]:
    meta, _ = decode_data(recovered.meta)
    for warning in recovered.fallbacks:
        yield f"warning: {warning}"
    yield f"written by {wording_of(meta['makers'])}"
    yield ""
    yield from generations(store, recovered)
    yield from positions(meta)
    queries = tops(rows)
    yield from query_table(queries, rows, meta, everything)
    yield from plans(queries, rows, everything)


def wording_of(written: tuple[Any, ...]) -> str:
    there = Makers(*written)
    libraries = f"reliable-rx {there.reliable_rx}, reactivex {there.reactivex}, cloudpickle {there.cloudpickle}"
    what = f"Python {there.python}, {libraries}"
    return what if there.fits(makers()) else f"{what}, whose code is not loaded here ({there.differing(makers())})"


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
    yield ""
    yield f"sources, as of {clock(meta['engine']['clock'])}"
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
    counts = Counter(map(query_of, rows))
    shown = queries if everything else queries[:SHOWN_MAX]
    yield ""
    count = count_of([each.name for each in queries])
    yield plural(count, "standing query", "standing queries")
    yield from table(
        ("name", "status", "emitted", "rows", "on error", "sinks have"),
        ((q.name, q.status, q.emitted, counts[q.name], q.policy, held(meta["holders"].get(q.name, {}))) for q in shown),
    )
    for q in shown:
        if q.error is not None:
            failure = read_failure(q.failure)
            yield f"  {q.name}: {described(q.error)}" + ("" if failure is None else f" (at {failure.at})")
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
        if ("plan", identity) not in rows:  # that of a suspended one is not stored again
            continue
        plan, limits = rows["plan", identity]
        names = ", ".join(q.name for q in those[:3]) + (f" and {len(those) - 3:,} more" if len(those) > 3 else "")
        yield ""
        yield names + ("" if limits == Limits() else f"   {limits}")
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
    if (SUSPENDED, name) in rows:
        (state, inside, _, signatures, _), _ = Loader({}).reading(lambda: decode_data(rows[SUSPENDED, name][1]))
        top, inner = top._replace(row=state), inside
    else:
        signatures = {key[1]: row for key, row in rows.items() if key[0] == "signature"}
        inner = [(key, row) for key, row in rows.items() if key[0] == name and len(key) > 2]
    yield f"{name}   {top.status}, {top.emitted:,} emitted"
    yield from state_of(signatures[top.signature], top.row, "  ")
    for key, row in inner if everything else inner[:SHOWN_MAX]:
        yield f"  {place(key[1:])}"
        if row[0] == "inner":
            yield from state_of(signatures[row[2]], row[3], "    ")
        for path, _, number, attached in row[2] if row[0] == "subject" else ():
            yield from state_of(signatures[number], attached, "    ") or (f"    {path}",)
    yield from left_out(0 if everything else len(inner) - SHOWN_MAX)


def place(address: Sequence[Any]) -> str:
    """Write where a row is: the operator that owns it and the key, outermost first."""
    steps = [f"{address[i + 1]} [{shown(address[i + 2])}]" for i in range(0, len(address), 3)]
    return " › ".join(steps)


def state_of(signature: Any, row: Any, indent: str) -> Iterator[str]:
    """Write the fields of every operator, and its timers."""
    _, _, values, timers, *_ = row
    stateful = [(path, fields) for path, _, _, fields in signature if fields]
    for (path, fields), saved in zip(stateful, values, strict=True):
        if saved is not None:
            pairs = ", ".join(f"{field} = {shown(value)}" for field, value in zip(fields, saved, strict=True))
            yield f"{indent}{path}   {pairs}"
    for index, tag, due, _ in timers:
        yield f"{indent}{signature[index][0]}   timer {shown(tag)} due {cell(due) if due < 1e8 else moment(due)}"


def shown(value: Any) -> str:
    return "<inner>" if isinstance(value, Inner) else placed_repr(value, VALUE_CHARACTERS_MAX)
