"""What must hold in every state of the protocol and over every step."""

from __future__ import annotations

from protocol import CLOSED, CLOSING, END, NODES, OPEN, TERMINATED, Protocol, State


def what_is_wrong(protocol: Protocol, before: State, after: State) -> str | None:
    """Return the claim that *after* breaks, or that the step from *before* to it does; None if all is well."""
    for partition in protocol.partitions:
        found = _wrong_at(protocol, partition, before, after)
        if found is not None:
            return found
    return None


def _wrong_at(protocol: Protocol, partition: int, before: State, after: State) -> str | None:
    committed, status = after.committed[partition], after.leases[partition][0]
    processed = after.processed[partition]
    if committed < before.committed[partition]:
        return f"what is committed of {partition} went back from {before.committed[partition]} to {committed}"
    if processed < (protocol.bounds.lengths[partition] if committed == END else committed):
        return f"more is committed of {partition} than was processed"
    if status == TERMINATED and committed != END:
        return f"{partition} is terminated without its end being committed"
    parents = protocol.bounds.parents[partition]
    if status in (OPEN, CLOSING) and any(after.committed[parent] != END for parent in parents):
        return f"{partition} is open before its parents have ended"
    if any(after.channels[node][partition] and not protocol.knows(after, node, partition) for node in NODES):
        return f"a node has {partition}, which its app has not"
    return _two_at_work(partition, after)


def _two_at_work(partition: int, state: State) -> str | None:
    at_work = [state.channels[node][partition] for node in NODES]
    epochs = [channel[0] for channel in at_work if channel and channel[1] != CLOSED]
    if len(set(epochs)) < len(epochs):
        return f"two nodes run {partition} under one epoch"
    if len(epochs) > 1 and state.faults == 0:
        return f"two nodes run {partition} although nothing has failed"
    return None
