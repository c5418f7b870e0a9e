"""What a Kafka source hands over for each record, unless it is told to decode it.

A named tuple, since one is made per record: a frozen dataclass cost three times as much, half of all that is done here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from confluent_kafka import Message

TIME_UNKNOWN = 0
"""What the client calls the kind of a timestamp that a record does not have."""


class KafkaRecord(NamedTuple):
    """One record of a topic, as its producer wrote it.

    *timestamp_s* is Unix time in seconds, None if the record has none. *position* is the record's offset. A *value* of
    None is a tombstone: the record of *key* is deleted.
    """

    key: bytes | None
    value: bytes | None
    timestamp_s: float | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: str
    position: int


def record_of(message: Message) -> KafkaRecord:
    """Copy what the client gave us into plain data."""
    kind, time_ms = message.timestamp()
    headers = message.headers()
    return KafkaRecord(
        message.key(),
        message.value(),
        None if kind == TIME_UNKNOWN else time_ms / 1000,
        () if headers is None else tuple(headers),  # type: ignore[arg-type]  # pairs of a name and bytes
        str(message.partition()),
        message.offset(),  # type: ignore[arg-type]  # None only before delivery
    )
