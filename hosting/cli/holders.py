"""`reliable-rx holders` and `release`: who keeps the streams of a stopped store from being forgotten, and letting go.

Letting go is a checkpoint of its own: differential, without a row, with the holder left out of what is remembered. So
it is one transaction, and nothing else in the store changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from checkpoint.codec import decode, decode_data, encode
from checkpoint.store import Checkpoint, StoreReader
from hosting.cli.stores import StoreAddress
from hosting.cli.terminal import say
from hosting.cli.wording import BadUsage, plural, table
from reliable_rx.names import STORED


def show(address: StoreAddress) -> int:
    """Print who holds which stream from which id on."""
    with address.look() as store:
        found = sorted(holders(store))
        if not found:
            say("nobody holds a stream")
            return 0
        for line in table(("stream", "holder", "next id", "kept for it"), (lagging(store, *each) for each in found)):
            say(line)
    return 0


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


def release(address: StoreAddress, stream: str, holder: str) -> int:
    """Let *holder* of *stream* go. *Raises* `BadUsage` if nobody of that name holds it, `StoreOwned` while it runs."""
    with address.own() as store:
        found = {name: position for each, name, position in holders(store) if each == stream}
        if holder not in found:
            there = ", ".join(map(repr, sorted(found))) or "nobody"
            raise BadUsage(f"{holder!r} does not hold stream {stream!r}; it is held by {there}")
        recovered = store.recover(strict=True)
        if recovered is not None:
            meta: dict[str, Any] = decode(recovered.meta)
            meta["holders"].get(stream, {}).pop(holder, None)
            number = recovered.generation + 1
            store.commit(Checkpoint(number, "differential", recovered.turn, encode(meta), [], 0))
        if holder.startswith(STORED):
            store.release(stream, holder.removeprefix(STORED))
        say(f"stream {stream!r} is not kept for {holder!r} any more, who had come to id {found[holder]:,}")
    return 0
