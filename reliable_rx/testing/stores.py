"""What every store must do, as checks that the author of one can run.

`check_store` gets a function that opens, or opens again, the same store. It commits, crashes at named points, fails
commits, reopens, and compares. The stores of this library pass exactly these checks. The faults are armed at the
probes that `checkpoint.sealed` names, so a store built on it is checked in the midst of its transaction.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from reliable_rx.errors import CheckpointRefused, InternalError, PositionUnavailable, StoreUnavailable
from reliable_rx.testing.faults import arm, disk_full

if TYPE_CHECKING:
    from checkpoint.log import Log
    from checkpoint.store import Checkpoint, Segment, Store

OpenStore = Callable[[], "Store"]
CheckOfStore = Callable[[OpenStore], None]
CLOSINGS, CLOSED_BEHIND = 5, 10
"""So often a store is closed while threads push, each time behind so many pushes."""


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
        _same(store.generations()[-1].generation, number, "the newest generation listed")
    with open_store() as store:
        recovered = store.recover()
        _same(store.owner, owner, "the owner after reopening")
        _expect(recovered is not None, "what was committed is recovered")
        found = recovered and (recovered.generation, recovered.turn, recovered.meta, list(recovered.chunks))
        _same(found, (number, number * 10, _meta(number), [b"one", b"", b"three" * 1_000]), "what is recovered")
        _same(recovered and recovered.fallbacks, (), "fallbacks")


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
        _same(_recovered(store), (last, [b"f1", b"f2", b"d1", b"d3"]), "the chain recovered")


def check_numbers(open_store: OpenStore) -> None:
    """A generation that is not newer than the last is refused, and changes nothing."""
    with open_store() as store:
        last = _commit(store, "full", chunks=[b"x"])
        with _refuses(InternalError, "a generation committed twice"):
            store.commit(_checkpoint(last, "full", [b"y"]))
        _same(_recovered(store), (last, [b"x"]), "what is recovered")


def check_retention(open_store: OpenStore) -> None:
    """Old generations go, and never one that a kept differential builds on."""
    with open_store() as store:
        for _ in range(12):
            _commit(store, "full", chunks=[b"old"])
        kept = len(store.generations())
        _expect(1 <= kept < 12, "old generations are deleted")
        base = _commit(store, "full", chunks=[b"base"])
        last = [_commit(store, "differential", chunks=[b"d"]) for _ in range(2 * kept)][-1]
        _same(store.generations()[0].generation, base, "the oldest generation kept under a long chain")
    with open_store() as store:
        _same(_recovered(store), (last, [b"base"] + [b"d"] * 2 * kept), "the long chain")


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
    with arm(place, disk_full(by_sqlite=by_sqlite)), _refuses(StoreUnavailable, f"a full disk at {place}"):
        store.commit(again, outputs=outputs, kept_from={"failing": 2})
    _same(_recovered(store), (before, [b"before"]), f"the state after a commit failed at {place}")
    _same(list(store.outputs("failing", 0)), [(0, 2, b"ab")], f"the outputs after a commit failed at {place}")
    store.commit(again, outputs=outputs, kept_from={"failing": 2})
    _same(_recovered(store), (before + 1, [b"before", b"after"]), "the state after the commit was repeated")
    _same(list(store.outputs("failing", 0)), [(2, 1, b"c")], "the outputs after the commit was repeated")


def check_unsure_commit(open_store: OpenStore) -> None:
    """A commit that was durable though it was reported as failed can be repeated, with other content."""
    with open_store() as store:
        before = _commit(store, "full", chunks=[b"before"])
        with arm("checkpoint.after_commit", disk_full()), _refuses(StoreUnavailable, "a failure after the commit"):
            store.commit(_checkpoint(before + 1, "full", [b"unsure"]), outputs={"unsure": [(0, 3, b"abc")]})
        store.commit(_checkpoint(before + 1, "differential", [b"sure"]), outputs={"unsure": [(0, 4, b"abcd")]})
        _same(list(store.outputs("unsure", 0)), [(0, 4, b"abcd")], "the outputs after the repetition")
    with open_store() as store:
        _same(_recovered(store), (before + 1, [b"before", b"sure"]), "the state after the repetition")


def check_outputs(open_store: OpenStore) -> None:
    """Outputs are appended in order, found by id, replaced by what begins at or before them, and trimmed whole."""
    with open_store() as store:
        _same(list(store.outputs("numbers", 0)), [], "the outputs of a stream that has none")
        _same(store.bounds("numbers"), None, "its bounds")
        _same(store.size("numbers"), 0, "its size")
        _commit(store, "full", chunks=[], outputs={"numbers": [(0, 3, b"abc"), (3, 2, b"de")], "other": [(7, 1, b"z")]})
        _commit(store, "full", chunks=[], outputs={"numbers": [(5, 4, b"fghi")]})
        _expect({"numbers", "other"} <= set(store.streams()), "streams with outputs are listed")
        _same(list(store.outputs("numbers", 0)), [(0, 3, b"abc"), (3, 2, b"de"), (5, 4, b"fghi")], "all outputs")
        _same(list(store.outputs("numbers", 4)), [(3, 2, b"de"), (5, 4, b"fghi")], "outputs from the midst of one")
        _same(list(store.outputs("numbers", 9)), [], "outputs from the end on")
        _commit(store, "full", chunks=[], kept_from={"numbers": 4, "absent": 9})
        _same(store.bounds("numbers"), (3, 9), "the bounds after trimming to id 4")
        before = store.size("numbers")
        _expect(before > len(b"defghi"), "the size of a stream is that of its segments")
        _commit(store, "full", chunks=[], outputs={"numbers": [(9, 1, bytes(1000))]})
        _expect(store.size("numbers") >= before + 1000, "the size of a stream grows with what is appended")
        _commit(store, "full", chunks=[], outputs={"other": [(8, 1, b"y")]}, kept_from={"other": 9})
        _same((store.bounds("other"), store.size("other")), (None, 0), "what is left of a stream that is trimmed whole")
        _same(next(store.outputs("numbers", 0)), (3, 2, b"de"), "the first segment after trimming to id 4")
        _commit(store, "full", chunks=[], outputs={"numbers": [(4, 2, b"EF"), (6, 1, b"G")]})
    with open_store() as store:
        replaced = [(3, 1, b"de"), (4, 2, b"EF"), (6, 1, b"G")]
        _same(list(store.outputs("numbers", 0)), replaced, "outputs after a part was written again")


def check_many_outputs(open_store: OpenStore) -> None:
    """A stream of any number of segments is read whole and in order, from any id: whatever a page of them is."""
    segments = [(10 + 2 * index, 2, b"%d" % index) for index in range(300)]
    with open_store() as store:
        _commit(store, "full", chunks=[], outputs={"many": segments})
        _same(list(store.outputs("many", 0)), segments, "all segments")
        for start in (*range(10, 610, 2), 11, 137, 139, 609):
            wanted = [each for each in segments if each[0] + each[1] > start]
            _same(list(store.outputs("many", start)), wanted, f"the segments from id {start} on")


def check_journal(open_store: OpenStore) -> None:
    """Turns come back in order from any turn on, must be consecutive, and go when they are dropped."""
    with open_store() as store:
        end = store.journal.last_turn
        store.journal.append(end + 1, 2, b"1-2")
        store.journal.append(end + 3, 1, b"3")
    with open_store() as store:
        journal = store.journal
        _same(journal.last_turn, end + 3, "the last turn after reopening")
        for wrong in (end + 3, end + 5):
            with _refuses(InternalError, f"turn {wrong} after turn {end + 3}"):
                journal.append(wrong, 1, b"wrong")
        journal.append(end + 4, 3, b"4-6")
        records = [(end + 1, 2, b"1-2"), (end + 3, 1, b"3"), (end + 4, 3, b"4-6")]
        for after in range(7):
            wanted = [each for each in records if each[0] + each[1] - 1 > end + after]
            _same(list(journal.read(end + after)), wanted, f"the records after turn {after}")
        journal.truncate(end + 4)
        _same(list(journal.read(end + 3)), records[2:], "what is left after dropping up to a record's middle")
        with _refuses(CheckpointRefused, "reading turns that were dropped"):
            list(journal.read(end + 2))


def check_journal_emptied(open_store: OpenStore) -> None:
    """A journal that was emptied remembers its last turn, and may be moved on to the turn of a checkpoint."""
    with open_store() as store:
        end = store.journal.last_turn
        store.journal.append(end + 1, 1, b"dropped")
        store.journal.truncate(end + 1)
        _same(list(store.journal.read(end + 1)), [], "an emptied journal")
    with open_store() as store:
        _same(store.journal.last_turn, end + 1, "the last turn of an emptied journal")
        store.journal.truncate(end + 10)
        _same(store.journal.last_turn, end + 10, "the last turn after moving on")
    with open_store() as store:
        store.journal.append(end + 11, 1, b"next")
        _same(list(store.journal.read(end + 10)), [(end + 11, 1, b"next")], "the turn after moving on")
        store.journal.truncate(end)
        _same(store.journal.last_turn, end + 11, "the last turn after truncating below everything")


def check_long_journal(open_store: OpenStore) -> None:
    """A journal of more records than one page or one transaction takes is read and dropped whole."""
    with open_store() as store:
        end = store.journal.last_turn
        for turn in range(end + 1, end + 2_501):
            store.journal.append(turn, 1, b"%d" % turn)
        _same(len(list(store.journal.read(end))), 2_500, "the records read")
        _same(next(store.journal.read(end + 2_400))[0], end + 2_401, "the first after turn 2,400")
        for count in (1, 2, 63, 64, 65, 127, 128, 255, 256, 257, 511, 512, 513, 1_000, 1_024):
            found = [first for first, _, _ in store.journal.read(end + 2_500 - count)]
            _same(found, list(range(end + 2_501 - count, end + 2_501)), f"the last {count} records")
        store.journal.truncate(end + 2_499)
        _same(len(list(store.journal.read(end + 2_499))), 1, "the records left")


def check_failed_append(open_store: OpenStore) -> None:
    """A turn that could not be written can be written again, with more turns, also if it was durable after all."""
    with open_store() as store:
        end = store.journal.last_turn
        for place, found in (("journal.before_commit", b"after a failure"), ("journal.after_commit", b"if unsure")):
            with arm(place, disk_full()), _refuses(StoreUnavailable, f"a full disk at {place}"):
                store.journal.append(end + 1, 1, b"failed")
            _same(store.journal.last_turn, end, "the last turn after a failure")
            store.journal.append(end + 1, 2, found)
            _same(list(store.journal.read(end)), [(end + 1, 2, found)], "the record after the repetition")
            end += 2


def check_log(open_store: OpenStore) -> None:
    """Logged values have consecutive ids, are read from any id in any amount, and keep their ids when trimmed."""
    with open_store() as store:
        log = store.log("pushed")
        first = log.append([b"a", b"b", b"c"])
        _same(log.append([b"d"]), first + 3, "the id after three values")
        _same(log.append([]), first + 4, "the id of nothing")
        store.log("another").append([b"z"])
    with open_store() as store:
        log = store.log("pushed")
        _same(log.end, first + 4, "the end after reopening")
        for start in range(5):
            for count_max in (1, 2, 9):
                wanted = [b"a", b"b", b"c", b"d"][start : start + count_max]
                _same(log.read(first + start, count_max), (first + start, wanted), "what is read")
        log.trim(first)
        _same(
            (log.first, log.read(first + 1, 2)), (first + 1, (first + 1, [b"b", b"c"])), "what is left after trimming"
        )
        with _refuses(PositionUnavailable, "reading what was trimmed"):
            log.read(first, 1)
        with _refuses(PositionUnavailable, "reading beyond the end"):
            log.read(first + 5, 1)
        log.trim(first + 100)
    with open_store() as store:
        log = store.log("pushed")
        _same((log.first, log.end), (first + 4, first + 4), "first and end after trimming everything")
        _same(log.append([b"e"]), first + 4, "the id after trimming everything")


def check_log_threads(open_store: OpenStore) -> None:
    """Threads that append at once get ids of their own, and every value is where its id says."""
    with open_store() as store:
        ids: dict[int, bytes] = {}

        def push(name: int) -> None:
            for number in range(20):
                value = b"%d/%d" % (name, number)
                ids[store.log("threads").append([value])] = value

        threads = [threading.Thread(target=push, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        _same(len(ids), 80, "the number of different ids")
        first, values = store.log("threads").read(min(ids), 100)
        _same(dict(enumerate(values, first)), ids, "the values by id")


def check_failed_push(open_store: OpenStore) -> None:
    """A push that failed is not there, its id goes to the next, also if it was durable after all."""
    with open_store() as store:
        log = store.log("failing")
        first = log.append([b"a"])
        for place in ("log.before_commit", "log.after_commit"):
            with arm(place, disk_full()), _refuses(StoreUnavailable, f"a full disk at {place}"):
                log.append([b"lost", b"too"])
        _same(log.append([b"b"]), first + 1, "the id after a failure")
    with open_store() as store:
        _same(store.log("failing").read(first, 9), (first, [b"a", b"b"]), "what is logged")


def check_closed_while_pushing(open_store: OpenStore) -> None:
    """What is pushed while the store is closed is in if the push has returned, and is not in if it has raised."""
    for _ in range(CLOSINGS):
        pushed: dict[int, bytes] = {}
        many, is_closed = threading.Semaphore(0), threading.Event()
        with open_store() as store:
            log = store.log("closing")
            first = log.end
            args = [(log, b"%d" % name, pushed, many, is_closed) for name in range(2)]
            threads = [threading.Thread(target=_push_until_closed, args=each) for each in args]
            for thread in threads:
                thread.start()
            for _ in range(CLOSED_BEHIND):
                many.acquire()
        is_closed.set()
        for thread in threads:
            thread.join()
        with open_store() as store:
            log = store.log("closing")
            at, values = log.read(first, log.end - first)
            _same(dict(enumerate(values, at)), pushed, "the values by id, whose pushes have returned")


def _push_until_closed(
    log: Log, name: bytes, pushed: dict[int, bytes], many: threading.Semaphore, is_closed: threading.Event
) -> None:
    """Push until the store refuses, or is closed; note what was accepted."""
    try:
        for number in itertools.count():
            if is_closed.is_set():
                return
            value = b"%s/%d" % (name, number)
            pushed[log.append([value])] = value
            many.release()
    except StoreUnavailable:
        pass
    finally:
        many.release(CLOSED_BEHIND)


def check_subscribers(open_store: OpenStore) -> None:
    """A subscriber's position is kept, never goes back, and is forgotten when he is released."""
    with open_store() as store:
        store.acknowledge("followed", "near", 4)
        store.acknowledge("followed", "near", 2)
        store.acknowledge("followed", "far", 0)
    with open_store() as store:
        _same(store.acknowledged("followed"), {"near": 4, "far": 0}, "the positions")
        _same(store.acknowledged("nobody's"), {}, "the positions on a stream without subscribers")
        store.release("followed", "far")
        store.release("followed", "never there")
        _same(store.acknowledged("followed"), {"near": 4}, "the positions after one was released")
        store.release("followed", "near")


STORE_CHECKS: Mapping[str, CheckOfStore] = {
    check.__name__.removeprefix("check_"): check
    for check in (
        check_round_trip,
        check_chain,
        check_numbers,
        check_retention,
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
    _same((info.generation, info.kind, info.turn), (number, kind, number * 10), "what the commit says it did")
    return number


def _checkpoint(number: int, kind: Literal["full", "differential"], chunks: Sequence[bytes]) -> Checkpoint:
    from checkpoint.store import Checkpoint

    return Checkpoint(number, kind, number * 10, _meta(number), chunks, len(chunks))


def _meta(number: int) -> bytes:
    return b"meta %d" % number


def _recovered(store: Store) -> tuple[int, list[bytes]] | None:
    recovered = store.recover()
    return None if recovered is None else (recovered.generation, list(recovered.chunks))


@contextmanager
def _refuses(kind: type[Exception], what: str) -> Iterator[None]:
    try:
        yield
    except kind:
        return
    raise AssertionError(f"{what} must raise {kind.__name__}")


def _same(found: object, wanted: object, what: str) -> None:
    _expect(found == wanted, f"{what}: {found!r} instead of {wanted!r}")


def _expect(condition: bool, claim: str) -> None:
    if not condition:
        raise AssertionError(f"not so: {claim}")
