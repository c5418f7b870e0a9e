"""What every store must do, as checks that the author of one can run.

`check_store` gets a function that opens, or opens again, the same store. It commits, crashes at named points, fails
commits, reopens, and compares. The stores of this library pass exactly these checks. The faults are armed at the
probes that `checkpoint.sealed_log.store` names, so a store built on it is checked in the midst of its transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from reliable_rx.errors import CheckpointRefused, InternalError, StoreUnavailable
from reliable_rx.testing.claims import expect, refuses, same
from reliable_rx.testing.faults import arm, disk_full
from reliable_rx.testing.store_hostile import check_hostile
from reliable_rx.testing.store_logs import (
    check_closed_while_pushing,
    check_failed_push,
    check_log,
    check_log_threads,
)

if TYPE_CHECKING:
    from checkpoint.store import Checkpoint, Segment, Store

OpenStore = Callable[[], "Store"]
CheckOfStore = Callable[[OpenStore], None]


def check_store(open_store: OpenStore) -> None:
    """Run every check of `STORE_CHECKS` on the store that *open_store* opens, one after the other.

    >>> from checkpoint import MemoryStore
    >>> stores = [MemoryStore()]
    >>> check_store(lambda: stores[0].reopen())

    *Raises* `AssertionError` with what the store does wrong.
    """
    for check in STORE_CHECKS.values():
        check(open_store)


def check_round_trip(open_store: OpenStore) -> None:
    """What was committed is what is recovered, also after reopening."""
    with open_store() as store:
        number = _commit(store, "full", chunks=[b"one", b"", b"three" * 1_000])
        owner = store.owner
        same(store.generations()[-1].generation, number, "the newest generation listed")
    with open_store() as store:
        recovered = store.recover()
        same(store.owner, owner, "the owner after reopening")
        expect(recovered is not None, "what was committed is recovered")
        found = recovered and (recovered.generation, recovered.turn, recovered.meta, list(recovered.chunks))
        same(found, (number, number * 10, _meta(number), [b"one", b"", b"three" * 1_000]), "what is recovered")
        same(recovered and recovered.fallbacks, (), "fallbacks")


def check_chain(open_store: OpenStore) -> None:
    """A differential is recovered as the full checkpoint below it and all differentials up to it, in order."""
    with open_store() as store:
        _commit(store, "full", chunks=[b"f1", b"f2"])
        _commit(store, "differential", chunks=[b"d1"])
    with open_store() as store:
        store.recover()
        _commit(store, "differential", chunks=[])
        last = _commit(store, "differential", chunks=[b"d3"])
    with open_store() as store:
        same(_recovered(store), (last, [b"f1", b"f2", b"d1", b"d3"]), "the chain recovered")


def check_numbers(open_store: OpenStore) -> None:
    """A generation that is not newer than the last is refused, and changes nothing."""
    with open_store() as store:
        last = _commit(store, "full", chunks=[b"x"])
        with refuses(InternalError, "a generation committed twice"):
            store.commit(_checkpoint(last, "full", [b"y"]))
        same(_recovered(store), (last, [b"x"]), "what is recovered")


def check_retention(open_store: OpenStore) -> None:
    """Old generations go, and never one that a kept differential builds on."""
    with open_store() as store:
        for _ in range(12):
            _commit(store, "full", chunks=[b"old"])
        kept = len(store.generations())
        expect(1 <= kept < 12, "old generations are deleted")
        base = _commit(store, "full", chunks=[b"base"])
        last = [_commit(store, "differential", chunks=[b"d"]) for _ in range(2 * kept)][-1]
        same(store.generations()[0].generation, base, "the oldest generation kept under a long chain")
    with open_store() as store:
        same(_recovered(store), (last, [b"base"] + [b"d"] * 2 * kept), "the long chain")


def check_owned(open_store: OpenStore) -> None:
    """An open store says that it is its owner's, as often as it is asked, and nothing changes; a closed one denies."""
    with open_store() as store:
        last = _commit(store, "full", chunks=[b"x"])
        for _ in range(3):
            store.check_owned()
        same(_recovered(store), (last, [b"x"]), "what is recovered")
    with refuses(StoreUnavailable, "a closed store that is asked whether it is owned"):
        store.check_owned()


def check_failed_commit(open_store: OpenStore) -> None:
    """A commit that fails leaves everything as it was and can be repeated, from each point where it may fail."""
    for place in ("checkpoint.before_commit", "checkpoint.mid_commit"):
        for by_sqlite in (True, False):
            with open_store() as store:
                _check_failed_commit(store, place, by_sqlite=by_sqlite)


def _check_failed_commit(store: Store, place: str, *, by_sqlite: bool) -> None:
    before = _commit(store, "full", chunks=[b"before"], outputs={"failing": [(0, 2, b"ab")]})
    again = _checkpoint(before + 1, "differential", [b"after"])
    outputs: Mapping[str, Sequence[Segment]] = {"failing": [(2, 1, b"c")]}
    with arm(place, disk_full(by_sqlite=by_sqlite)), refuses(StoreUnavailable, f"a full disk at {place}"):
        store.commit(again, outputs=outputs, kept_from={"failing": 2})
    same(_recovered(store), (before, [b"before"]), f"the state after a commit failed at {place}")
    same(list(store.outputs("failing", 0)), [(0, 2, b"ab")], f"the outputs after a commit failed at {place}")
    store.commit(again, outputs=outputs, kept_from={"failing": 2})
    same(_recovered(store), (before + 1, [b"before", b"after"]), "the state after the commit was repeated")
    same(list(store.outputs("failing", 0)), [(2, 1, b"c")], "the outputs after the commit was repeated")


def check_unsure_commit(open_store: OpenStore) -> None:
    """A commit that was durable though it was reported as failed can be repeated, with other content."""
    with open_store() as store:
        before = _commit(store, "full", chunks=[b"before"])
        with arm("checkpoint.after_commit", disk_full()), refuses(StoreUnavailable, "a failure after the commit"):
            store.commit(_checkpoint(before + 1, "full", [b"unsure"]), outputs={"unsure": [(0, 3, b"abc")]})
        store.commit(_checkpoint(before + 1, "differential", [b"sure"]), outputs={"unsure": [(0, 4, b"abcd")]})
        same(list(store.outputs("unsure", 0)), [(0, 4, b"abcd")], "the outputs after the repetition")
    with open_store() as store:
        same(_recovered(store), (before + 1, [b"before", b"sure"]), "the state after the repetition")


def check_outputs(open_store: OpenStore) -> None:
    """Outputs are appended in order, found by id, replaced by what begins at or before them, and trimmed whole."""
    with open_store() as store:
        same(list(store.outputs("numbers", 0)), [], "the outputs of a stream that has none")
        same(store.bounds("numbers"), None, "its bounds")
        same(store.size("numbers"), 0, "its size")
        _commit(store, "full", chunks=[], outputs={"numbers": [(0, 3, b"abc"), (3, 2, b"de")], "other": [(7, 1, b"z")]})
        _commit(store, "full", chunks=[], outputs={"numbers": [(5, 4, b"fghi")]})
        expect({"numbers", "other"} <= set(store.streams()), "streams with outputs are listed")
        same(list(store.outputs("numbers", 0)), [(0, 3, b"abc"), (3, 2, b"de"), (5, 4, b"fghi")], "all outputs")
        same(list(store.outputs("numbers", 4)), [(3, 2, b"de"), (5, 4, b"fghi")], "outputs from the midst of one")
        same(list(store.outputs("numbers", 9)), [], "outputs from the end on")
        _commit(store, "full", chunks=[], kept_from={"numbers": 4, "absent": 9})
        same(store.bounds("numbers"), (3, 9), "the bounds after trimming to id 4")
        before = store.size("numbers")
        expect(before > len(b"defghi"), "the size of a stream is that of its segments")
        _commit(store, "full", chunks=[], outputs={"numbers": [(9, 1, bytes(1000))]})
        expect(store.size("numbers") >= before + 1000, "the size of a stream grows with what is appended")
        _commit(store, "full", chunks=[], outputs={"other": [(8, 1, b"y")]}, kept_from={"other": 9})
        same((store.bounds("other"), store.size("other")), (None, 0), "what is left of a stream that is trimmed whole")
        same(next(store.outputs("numbers", 0)), (3, 2, b"de"), "the first segment after trimming to id 4")
        _commit(store, "full", chunks=[], outputs={"numbers": [(4, 2, b"EF"), (6, 1, b"G")]})
    with open_store() as store:
        replaced = [(3, 1, b"de"), (4, 2, b"EF"), (6, 1, b"G")]
        same(list(store.outputs("numbers", 0)), replaced, "outputs after a part was written again")


def check_many_outputs(open_store: OpenStore) -> None:
    """A stream of any number of segments is read whole and in order, from any id: whatever a page of them is."""
    segments = [(10 + 2 * index, 2, b"%d" % index) for index in range(300)]
    with open_store() as store:
        _commit(store, "full", chunks=[], outputs={"many": segments})
        same(list(store.outputs("many", 0)), segments, "all segments")
        for start in (*range(10, 610, 2), 11, 137, 139, 609):
            wanted = [each for each in segments if each[0] + each[1] > start]
            same(list(store.outputs("many", start)), wanted, f"the segments from id {start} on")


def check_journal(open_store: OpenStore) -> None:
    """Turns come back in order from any turn on, must be consecutive, and go when they are dropped."""
    with open_store() as store:
        end = store.journal.last_turn
        store.journal.append(end + 1, 2, b"1-2")
        store.journal.append(end + 3, 1, b"3")
    with open_store() as store:
        journal = store.journal
        same(journal.last_turn, end + 3, "the last turn after reopening")
        for wrong in (end + 3, end + 5):
            with refuses(InternalError, f"turn {wrong} after turn {end + 3}"):
                journal.append(wrong, 1, b"wrong")
        journal.append(end + 4, 3, b"4-6")
        records = [(end + 1, 2, b"1-2"), (end + 3, 1, b"3"), (end + 4, 3, b"4-6")]
        for after in range(7):
            wanted = [each for each in records if each[0] + each[1] - 1 > end + after]
            same(list(journal.read(end + after)), wanted, f"the records after turn {after}")
        journal.truncate(end + 4)
        same(list(journal.read(end + 3)), records[2:], "what is left after dropping up to a record's middle")
        with refuses(CheckpointRefused, "reading turns that were dropped"):
            list(journal.read(end + 2))


def check_journal_emptied(open_store: OpenStore) -> None:
    """A journal that was emptied remembers its last turn, and may be moved on to the turn of a checkpoint."""
    with open_store() as store:
        end = store.journal.last_turn
        store.journal.append(end + 1, 1, b"dropped")
        store.journal.truncate(end + 1)
        same(list(store.journal.read(end + 1)), [], "an emptied journal")
    with open_store() as store:
        same(store.journal.last_turn, end + 1, "the last turn of an emptied journal")
        store.journal.truncate(end + 10)
        same(store.journal.last_turn, end + 10, "the last turn after moving on")
    with open_store() as store:
        store.journal.append(end + 11, 1, b"next")
        same(list(store.journal.read(end + 10)), [(end + 11, 1, b"next")], "the turn after moving on")
        store.journal.truncate(end)
        same(store.journal.last_turn, end + 11, "the last turn after truncating below everything")


def check_long_journal(open_store: OpenStore) -> None:
    """A journal of more records than one page or one transaction takes is read and dropped whole."""
    with open_store() as store:
        end = store.journal.last_turn
        for turn in range(end + 1, end + 2_501):
            store.journal.append(turn, 1, b"%d" % turn)
        same(len(list(store.journal.read(end))), 2_500, "the records read")
        same(next(store.journal.read(end + 2_400))[0], end + 2_401, "the first after turn 2,400")
        for count in (1, 2, 63, 64, 65, 127, 128, 255, 256, 257, 511, 512, 513, 1_000, 1_024):
            found = [first for first, _, _ in store.journal.read(end + 2_500 - count)]
            same(found, list(range(end + 2_501 - count, end + 2_501)), f"the last {count} records")
        store.journal.truncate(end + 2_499)
        same(len(list(store.journal.read(end + 2_499))), 1, "the records left")


def check_failed_append(open_store: OpenStore) -> None:
    """A turn that could not be written can be written again, with more turns, also if it was durable after all."""
    with open_store() as store:
        end = store.journal.last_turn
        for place, found in (("journal.before_commit", b"after a failure"), ("journal.after_commit", b"if unsure")):
            with arm(place, disk_full()), refuses(StoreUnavailable, f"a full disk at {place}"):
                store.journal.append(end + 1, 1, b"failed")
            same(store.journal.last_turn, end, "the last turn after a failure")
            store.journal.append(end + 1, 2, found)
            same(list(store.journal.read(end)), [(end + 1, 2, found)], "the record after the repetition")
            end += 2


def check_subscribers(open_store: OpenStore) -> None:
    """A subscriber's position is kept, never goes back, and is forgotten when he is released."""
    with open_store() as store:
        store.acknowledge("followed", "near", 4)
        store.acknowledge("followed", "near", 2)
        store.acknowledge("followed", "far", 0)
    with open_store() as store:
        same(store.acknowledged("followed"), {"near": 4, "far": 0}, "the positions")
        same(store.acknowledged("nobody's"), {}, "the positions on a stream without subscribers")
        store.release("followed", "far")
        store.release("followed", "never there")
        same(store.acknowledged("followed"), {"near": 4}, "the positions after one was released")
        store.release("followed", "near")


STORE_CHECKS: Mapping[str, CheckOfStore] = {
    check.__name__.removeprefix("check_"): check
    for check in (
        check_round_trip,
        check_chain,
        check_numbers,
        check_retention,
        check_owned,
        check_failed_commit,
        check_unsure_commit,
        check_outputs,
        check_many_outputs,
        check_journal,
        check_journal_emptied,
        check_long_journal,
        check_failed_append,
        check_log,
        check_log_threads,
        check_failed_push,
        check_closed_while_pushing,
        check_subscribers,
        check_hostile,
    )
}
"""The checks by name, each on its own: every one may run on a new store or after any other."""


def _commit(
    store: Store,
    kind: Literal["full", "differential"],
    *,
    chunks: Sequence[bytes],
    outputs: Mapping[str, Sequence[Segment]] | None = None,
    kept_from: Mapping[str, int] | None = None,
) -> int:
    """Commit the next generation and return its number."""
    generations = store.generations()
    number = generations[-1].generation + 1 if generations else 1
    info = store.commit(_checkpoint(number, kind, chunks), outputs=outputs or {}, kept_from=kept_from or {})
    same((info.generation, info.kind, info.turn), (number, kind, number * 10), "what the commit says it did")
    return number


def _checkpoint(number: int, kind: Literal["full", "differential"], chunks: Sequence[bytes]) -> Checkpoint:
    from checkpoint.store import Checkpoint

    return Checkpoint(number, kind, number * 10, _meta(number), chunks, len(chunks))


def _meta(number: int) -> bytes:
    return b"meta %d" % number


def _recovered(store: Store) -> tuple[int, list[bytes]] | None:
    recovered = store.recover()
    return None if recovered is None else (recovered.generation, list(recovered.chunks))
