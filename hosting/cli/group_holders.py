"""`reliable-rx holders` and `release` in a group: who keeps the streams of all partitions, and letting one of them go.

Looking needs no lease, and disturbs no node. Letting go is done in each partition, while no node runs, as in
`hosting.cli.mend_group`. A sink is known to a partition by a number, and partitions that began under different apps may
number theirs differently: so a sink that was declared when the partition ran last is not let go here, unless the
partition is over: no node opens it again, and its sinks have all. Rejected: to ask for the app (it would have to make
the sinks of each partition to see which of them it declares).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from hosting.cli.groups import Found, found_group
from hosting.cli.holders import HEAD, holder_rows, let_go, may_let_go, not_held
from hosting.cli.mend_group import Done, check_stopped, lent
from hosting.cli.terminal import complain, say
from hosting.cli.wording import BadUsage, log_nothing, plural, table
from hosting.partitioned.tending import forget_holder
from reliable_rx.errors import ReliableRxError


def show(where: str, *, group: str | None) -> int:
    """Print who holds which stream of which partition; return 1 if one could not be looked at."""
    rows, left_out = list[tuple[object, ...]](), 0
    with found_group(where, group) as found:
        for partition in sorted(found.document().holds):
            try:
                reader = found.opened.stores.look(partition)
                if reader is not None:
                    with reader as store:
                        rows += [(partition, *row) for row in holder_rows(store)]
            except ReliableRxError as error:
                complain(f"{partition}: {error.message}")
                left_out += 1
    for line in table(("partition", *HEAD), rows) if rows else ["nobody holds a stream"]:
        say(line)
    return 1 if left_out else 0


def rows_of(found: Found) -> Iterator[tuple[object, ...]]:
    """Give who holds what in those partitions that can be looked at."""
    for partition in found.document().holds:
        with suppress(ReliableRxError):
            reader = found.opened.stores.look(partition)
            if reader is not None:
                with reader as store:
                    yield from holder_rows(store)


def release(where: str, stream: str, holder: str | None, *, group: str | None) -> int:
    """Let *holder* of *stream* go in all partitions. *Raises* `BadUsage` if no partition has one of that name."""
    done, kept, known = Done(), list[str](), list[tuple[object, ...]]()
    with found_group(where, group) as found, log_nothing():
        if holder is None:
            raise BadUsage(not_held(stream, holder, rows_of(found)))
        check_stopped(found)
        for partition, hold in sorted(found.document().holds.items()):
            try:
                with lent(found, partition) as lease:
                    if lease is None:
                        continue
                    store = lease.store
                    known += holder_rows(store)
                    if not hold.is_over and not may_let_go(store, stream, holder):
                        kept.append(str(partition))
                        continue
                    position = let_go(store, stream, holder)
            except ReliableRxError as error:
                complain(f"{partition}: {error.message}")
                done.left_out += 1
                continue
            if position is not None:
                had = f"{holder!r} any more, who had come to id {position:,}"
                say(f"{partition}: stream {stream!r} is not kept for {had}")
                done.changed += 1
            forget_holder(found.opened.registry, found.name, partition, f"{stream}/{holder}")  # also after a kill
    if kept:
        what = "the app that ran last declares this sink: take it out of the app, start the nodes, and stop them"
        complain(f"not let go in {', '.join(kept[:5])}{' and others' if len(kept) > 5 else ''}: {what}")
    if not (done.changed or done.left_out or kept):
        raise BadUsage(f"in no partition: {not_held(stream, holder, known)}")
    code = done.told(f"{holder} of {stream} was let go in {plural(done.changed, 'partition')}")
    return 1 if kept and not done.changed else code
