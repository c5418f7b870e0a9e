"""Group commit: turns are gathered for a few milliseconds and made durable with one fsync.

A group also carries one digest per query of what it emitted in these turns. A replay takes the same turns, computes the
digests again, and so finds out a query that does not repeat itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from checkpoint import failures
from checkpoint.format.by_value import encode_query
from checkpoint.format.code import OtherCode
from checkpoint.format.codec import decode, digest, encode
from checkpoint.format.salvage import salvage
from checkpoint.sealed_log.journal import Journal
from hosting.engine.turns import (
    Answer,
    Appear,
    Create,
    Dispose,
    Events,
    Expect,
    Fail,
    Output,
    Rejects,
    Resume,
    Tick,
    Turn,
)
from reliable_rx.errors import CheckpointRefused, NondeterminismDetected, type_of
from reliable_rx.interrupts import let_through
from reliable_rx.runtime.calling import Call

Entry = tuple[Any, ...]
PassesOver = Literal["", "gap", "all"]
"""Which turns behind a checkpoint a repair does not take again: none, those behind the first that is lost, or all."""
BY_VALUE = "map it to what compares by value: None for a NaN, an id or a frozen dataclass for an object"
"""The remedy for values that are equal by identity only."""
Digests = dict[str, tuple[bytes, int]]
"""By stream: the digest of what it emitted in a group, and its next id behind that."""


@dataclass(slots=True)
class Group:
    """Turns that will be committed together, what they emitted, and the calls that they want."""

    first_turn: int
    last_turn: int = 0
    entries: list[Entry] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    weight: int = 0

    def weigh(self, entry: Entry) -> bool:
        """Add what *entry* holds in bytes, an answer or code; return whether more would be too long for one record."""
        if bytes in map(type, entry):
            self.weight += sum([len(part) for part in entry if type(part) is bytes])
        return self.weight > failures.JOINED_BYTES_MAX

    def digests(self) -> Digests:
        noted: dict[str, list[Any]] = {}
        for out in self.outputs:
            note(noted, out)
        return digests(noted)


def note(outputs: dict[str, list[Any]], out: Output) -> None:
    """Add what a query emitted to what its digest will cover."""
    values = outputs.get(out.name)
    if values is None:
        outputs[out.name] = values = [out.first]
    values.extend(out.values)
    if out.ended:
        values.append(("ended", None if out.error is None else type_of(out.error)))


def digests(outputs: Mapping[str, list[Any]]) -> Digests:
    return {name: (digest(values), values[0] + len(values) - 1) for name, values in outputs.items()}


class Told(NamedTuple):
    """What a group says besides its turns, where that is not what the store has."""

    definitions: Mapping[str, Any] = MappingProxyType({})
    """Of sources: what reads them."""
    classes: Mapping[str, str] = MappingProxyType({})
    """Fingerprints of classes of values, by name."""


def write(journal: Journal, group: Group, digested: Digests, told: Told) -> None:
    """Make a group durable, with what it says besides."""
    said = [*map(dict, told)]
    while said and not said[-1]:
        said.pop()
    journal.append(group.first_turn, group.last_turn - group.first_turn + 1, encode((group.entries, digested, *said)))


def read(
    journal: Journal, after_turn: int, upto: int | None = None
) -> Iterator[tuple[int, int, list[Entry], Digests, Told]]:
    """Yield the groups behind *after_turn*, at most *upto* that one.

    Of each: its first turn, its last turn, entries, digests, and what it says besides.
    """
    if upto is not None and upto <= after_turn:
        return
    for first, count, payload in journal.read(after_turn):
        entries, digested, *told = leniently(payload)
        if first <= after_turn:
            what = f"turns {first:,} to {first + count - 1:,} overlap the checkpoint of turn {after_turn:,}"
            raise CheckpointRefused(f"the journal does not fit: {what}", what=what, where="journal")
        yield first, first + count - 1, entries, digested, Told(*told)
        if first + count - 1 == upto:
            return


def leniently(payload: bytes) -> Any:
    """Read a group, with what stands for the parts of it that cannot be read today."""
    try:
        return decode(payload)
    except OtherCode:
        raise
    except BaseException as raised:  # what an event or a value raises when it is read
        let_through(raised)
        return salvage(payload, code=True).value


def compare(written: Digests, outputs: Mapping[str, list[Any]]) -> list[str]:
    """Return the queries whose replay differs from the first run."""
    again = digests(outputs)
    return sorted(name for name in written.keys() | again.keys() if written.get(name) != again.get(name))


def nondeterminism(
    queries: Sequence[str],
    first_turn: int,
    last_turn: int,
    *,
    strict: bool,
    changed: Sequence[str] = (),
    sources: Sequence[str] = (),
    data: Mapping[str, str] = MappingProxyType({}),
    compared: Mapping[str, str] = MappingProxyType({}),
) -> NondeterminismDetected:
    """Say which queries did not repeat themselves.

    *changed* names code that they reach and that is not what it was, *sources* those that are read by other code,
    *data* says what differs of those that are read with other data, *compared* what queries compare by identity.
    """
    names = ", ".join(repr(name) for name in queries)
    if changed:
        why = (
            f"{', '.join(changed)} may have changed since, and go by name (functions and constants are stored; "
            f"classes, other objects and functions that hold what cannot be stored, as a lock, are not): put the old "
            f"code back, start, stop cleanly, and change it then, or run with strict=False (App(strict=False)) to go "
            f"on with what the replay gave"
        )
    elif data:
        way = "run with strict=False (App(strict=False)) to go on with what the replay gave"
        why = f"{'; '.join(data.values())}; {f'or {way}' if strict else 'it goes on with what the replay gave'}"
    elif sources:
        why = (
            f"source {', '.join(map(repr, sources))} is read with another function than it was, so it goes on with that"
        )
    elif by_identity := next((compared[each] for each in queries if each in compared), ""):
        what = "it ends" if strict else "it goes on with what the replay gave"
        why = f"{by_identity}, which a checkpoint does not keep, so {what}; {BY_VALUE}"
    else:
        what = "it ends" if strict else "it goes on with what the replay gave"
        why = (
            f"a function in the query reads a clock, a random number, a changing global or the order of a set, or a "
            f"source gives other events than it did (was a file replaced or edited?), so {what}"
        )
    return NondeterminismDetected(
        f"replaying turns {first_turn:,} to {last_turn:,} gave other outputs of {names} than the first run: {why}",
        query=queries[0],
        queries=tuple(queries),
        turn=first_turn,
        **({"source": next(iter(data))} if data else {}),
    )


def entry_of(turn: Turn, code: bytes | None) -> Entry:
    """Write a turn without its events; how a partition ends is no event, and may not be said again."""
    if isinstance(turn, Events):
        end, count = (turn.error,) if turn.ended else (), len(turn.values)
        return ("events", turn.source, turn.partition, turn.first, count, turn.time, turn.ended, turn.singly, *end)
    if isinstance(turn, Rejects):
        return ("rejects", turn.source, turn.partition, turn.first, turn.next, len(turn.records), turn.time)
    if isinstance(turn, Create):
        clock = None if turn.clock is None else encode_query(turn.clock)
        return ("create", turn.name, turn.plan, code, turn.keys, turn.policy, turn.limits, turn.time, clock)
    if isinstance(turn, Appear):
        return ("appear", turn.source, dict(turn.positions))
    return (WORDS[type(turn)], *turn)


def simple_turn(entry: Entry) -> Turn:
    """Read back a turn that needs nothing from outside."""
    return SIMPLE[entry[0]](*entry[1:])


SIMPLE: dict[str, type[Turn]] = {
    "tick": Tick, "answer": Answer, "dispose": Dispose, "fail": Fail, "resume": Resume, "expect": Expect,
}  # fmt: skip
"""Turns that are written with all their fields."""
WORDS = {kind: word for word, kind in SIMPLE.items()}
