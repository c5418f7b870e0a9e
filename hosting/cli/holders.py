"""`reliable-rx holders` and `release`: who keeps the streams of a stopped store from being forgotten, and letting go.

Letting go is a checkpoint of its own: differential, without a row, with the holder left out of what is remembered. So
it is one transaction, and nothing else in the store changes.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from checkpoint.format.codec import decode, decode_data, encode
from checkpoint.store import Checkpoint, Store, StoreReader
from hosting.cli.stores import StoreAddress
from hosting.cli.terminal import say
from hosting.cli.wording import BadUsage, plural, table
from hosting.edges.sink_positions import Labels, described, is_sink
from hosting.engine.cycles import there_are
from reliable_rx.names import STORED

HEAD = ("stream", "holder", "next id", "kept for it", "what it is")


def show(address: StoreAddress) -> int:
    """Print who holds which stream from which id on."""
    with address.look() as store:
        found = list(holder_rows(store))
        for line in table(HEAD, found) if found else ["nobody holds a stream"]:
            say(line)
    return 0


def holder_rows(store: StoreReader) -> Iterator[tuple[str, str, int, str, str]]:
    """Give a row for each holder: of a sink, what it is, and whether the last app had it."""
    labels = sinks_in(store)
    for stream, holder, position in sorted(holders(store)):
        label, was_declared, kind, *_ = labels.get(stream, {}).get(holder, ("", True, ""))
        what = described(kind, label) if label else ""
        yield *lagging(store, stream, holder, position), what + ", not declared any more" * (was_declared is False)


def sinks_in(store: StoreReader) -> dict[str, Labels]:
    """Return what the last checkpoint has of the sinks of each stream."""
    recovered = store.recover()
    found: dict[str, Labels] = {} if recovered is None else decode_data(recovered.meta)[0]["sinks"]
    return found


def lagging(store: StoreReader, stream: str, holder: str, position: int) -> tuple[str, str, int, str]:
    bounds = store.bounds(stream)
    behind = 0 if bounds is None else max(0, bounds[1] - max(position, bounds[0]))
    return stream, holder, position, plural(behind, "notification")


def holders(store: StoreReader) -> Iterator[tuple[str, str, int]]:
    """Give each stream, holder and next id: as of the last checkpoint, and for durable subscribers as of now."""
    recovered = store.recover()
    remembered: dict[str, dict[str, int]] = {} if recovered is None else decode_data(recovered.meta)[0]["holders"]
    stored = {stream: store.acknowledged(stream) for stream in store.subscribed()}
    for stream, each in remembered.items():
        durable = {STORED + name for name in stored.get(stream, ())}
        yield from ((stream, holder, position) for holder, position in each.items() if holder not in durable)
    for stream, positions in stored.items():
        yield from ((stream, STORED + name, n + 1) for name, n in positions.items())


def release(address: StoreAddress, stream: str, holder: str | None) -> int:
    """Let *holder* of *stream* go.

    *Raises* `BadUsage` if nobody of that name holds it, or the app has it as a sink; `StoreOwned` while it runs.
    """
    if holder is None:
        with address.look() as store:
            raise BadUsage(not_held(stream, holder, holder_rows(store)))
    status = address.status()
    with address.own() as store:
        told = {
            "failed": status.failed,
            "failed_left_out": status.failed_left_out,
            "incidents": [each for each in status.incidents if each["kind"] != "recovery"],
            "incidents_left_out": status.incidents_left_out,
            "told_at": time.time(),
        }
        if not may_let_go(store, stream, holder):
            raise BadUsage(
                f"{holder!r} is a sink that the app declared which ran last: it would begin anew, and be given again "
                f"all that is kept; take it out of the app, and let it go behind the next stop"
            )
        position = let_go(store, stream, holder, told=told if status.told_s is not None else {})
        if position is None:
            raise BadUsage(not_held(stream, holder, holder_rows(store)))
        say(f"stream {stream!r} is not kept for {holder!r} any more, who had come to id {position:,}")
    return 0


def not_held(stream: str, holder: str | None, rows: Iterable[Sequence[object]]) -> str:
    """Say who holds *stream* where *holder* does not, or is not named; *rows* begin with a stream and who holds it.

    >>> not_held("sums", None, [("sums", "sink 0"), ("orders", "sink 0")])
    "say who is to be let go: stream 'sums' is held by 'sink 0'"
    >>> not_held("smus", "sink 0", [("sums", "sink 0"), ("orders", "sink 0")])
    "nobody holds a stream 'smus'; did you mean 'sums'? There are: orders, sums"
    """
    found: dict[str, list[str]] = {}
    for each, name, *_ in sorted(rows, key=lambda row: (str(row[0]), str(row[1]))):
        if repr(name) not in found.setdefault(str(each), []):
            found[str(each)].append(repr(name))
    if stream not in found:
        return f"nobody holds a stream {stream!r}; {there_are(found, stream)}"
    wanted = "say who is to be let go:" if holder is None else f"{holder!r} does not hold stream {stream!r};"
    held = f"stream {stream!r}" if holder is None else "it"
    return f"{wanted} {held} is held by {', '.join(found[stream])}"


def let_go(store: Store, stream: str, holder: str, *, told: dict[str, Any] | None = None) -> int | None:
    """Let *holder* of *stream* go; return its position, None if there is none. *told* is what was open in the store."""
    found = {name: position for each, name, position in holders(store) if each == stream}
    if holder not in found:
        return None
    recovered = store.recover(strict=True)
    if recovered is not None:
        meta: dict[str, Any] = {**decode(recovered.meta), **(told or {})}
        meta["holders"].get(stream, {}).pop(holder, None)
        over = ("holder", f"{stream}/{holder}")
        meta["incidents"] = [each for each in meta.get("incidents", ()) if (each["kind"], each["subject"]) != over]
        number = recovered.generation + 1
        store.commit(Checkpoint(number, "differential", recovered.turn, encode(meta), [], 0))
    if holder.startswith(STORED):
        store.release(stream, holder.removeprefix(STORED))
    return found[holder]


def may_let_go(store: StoreReader, stream: str, holder: str) -> bool:
    """Whether *holder* is not a sink that the app declared which ran last."""
    label, was_declared, *_ = sinks_in(store).get(stream, {}).get(holder, ("", False))
    return not (is_sink(holder) and label and was_declared is not False)
