"""A broker for what the mock cluster cannot do: logs that are compacted, transactions that abort, times, faults.

It speaks the few requests of Kafka's protocol that a reader needs, in old versions, over a real socket, so that the
client library itself takes the batches apart, hides what was aborted and passes over what is gone. One topic, one
partition with a log that the test writes (others have names only). Rejected: a double for the client library, which
would only repeat what we believe of it.
"""

from __future__ import annotations

import contextlib
import socket
import socketserver
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

TOPIC = "wire"
FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR, API_VERSIONS = 1, 2, 3, 10, 18
VERSIONS = {FETCH: (4, 4), LIST_OFFSETS: (1, 2), METADATA: (0, 1), FIND_COORDINATOR: (0, 0), API_VERSIONS: (0, 0)}
VERSIONS |= {0: (3, 3), 8: (1, 1), 9: (1, 1)} | dict.fromkeys(range(11, 15), (0, 0))  # claimed, and never asked of us
OFFSET_OUT_OF_RANGE, UNSUPPORTED_VERSION = 1, 35
TRANSACTIONAL, CONTROL = 0x10, 0x20
ABORT, COMMIT = 0, 1


@dataclass
class Entry:
    """One batch of the log: records by their offsets, between the first and the last that it covers."""

    first: int
    last: int
    records: dict[int, bytes]
    producer: int = -1
    marker: int | None = None
    time_ms: int = 0

    def encode(self) -> bytes:
        attributes = (TRANSACTIONAL if self.producer >= 0 else 0) | (CONTROL if self.marker is not None else 0)
        body = struct.pack(
            ">hiqqqhi", attributes, self.last - self.first, self.time_ms, self.time_ms, self.producer, 0, 0
        )
        records = {self.first: b""} if self.marker is not None else self.records
        body += struct.pack(">i", len(records))
        for offset, value in sorted(records.items()):
            key = None if self.marker is None else struct.pack(">hh", 0, self.marker)
            body += record(offset - self.first, key, value)
        body = struct.pack(">ibI", 0, 2, crc32c(body)) + body
        return struct.pack(">qi", self.first, len(body)) + body


@dataclass
class Log:
    """What a partition holds; offsets only grow, and records may go."""

    entries: list[Entry] = field(default_factory=list)
    start: int = 0
    end: int = 0
    open: dict[int, int] = field(default_factory=dict)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)

    def append(self, values: Sequence[bytes], *, producer: int = -1, time_ms: int = 0) -> None:
        first, self.end = self.end, self.end + len(values)
        if producer >= 0:
            self.open.setdefault(producer, first)
        records = dict(zip(range(first, self.end), values, strict=True))
        self.entries.append(Entry(first, self.end - 1, records, producer, time_ms=time_ms))

    def finish(self, producer: int, marker: int) -> None:
        """End the transaction of *producer*."""
        first = self.open.pop(producer)
        if marker == ABORT:
            self.aborted.append((producer, first, self.end))
        self.entries.append(Entry(self.end, self.end, {}, producer, marker))
        self.end += 1

    def compact(self, gone: set[int]) -> None:
        """Remove records; batches without any left go too, but never the last."""
        for entry in self.entries:
            entry.records = {offset: value for offset, value in entry.records.items() if offset not in gone}
        self.entries = [e for e in self.entries if e.records or e.marker is not None or e is self.entries[-1]]

    @property
    def stable(self) -> int:
        return min(self.open.values(), default=self.end)

    def visible(self) -> dict[int, bytes]:
        """What a reader of committed records is to see."""
        hidden = {(p, n) for p, first, last in self.aborted for n in range(first, last)}
        return {
            offset: value
            for entry in self.entries
            for offset, value in entry.records.items()
            if self.start <= offset < self.stable and (entry.producer, offset) not in hidden
        }

    def find(self, time_ms: int) -> tuple[int, int]:
        """Return time and offset of the first record at or after *time_ms*."""
        found = [(e.time_ms, n) for e in self.entries for n in sorted(e.records) if e.time_ms >= time_ms]
        return found[0] if found else (-1, -1)


class WireBroker:
    """Serves a `Log`; *faults* are error codes for fetches to come, *requests* what was asked."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.partitions = 1
        self.faults: list[int] = []
        self.requests: list[int] = []
        broker = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(OSError, struct.error):
                    while True:
                        broker.answer(self.request)

        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = int(self.server.server_address[1])
        self.servers = f"127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def answer(self, connection: socket.socket) -> None:
        (size,) = struct.unpack(">i", exactly(connection, 4))
        asked = Asked(exactly(connection, size))
        api, version, correlation = asked.take("hhi")
        asked.text()
        self.requests.append(api)
        body = self.versions(version) if api == API_VERSIONS else ANSWERS[api](self, asked, version)
        connection.sendall(struct.pack(">ii", len(body) + 4, correlation) + body)

    def versions(self, version: int) -> bytes:
        error = UNSUPPORTED_VERSION if version else 0
        return struct.pack(">hi", error, len(VERSIONS)) + b"".join(
            struct.pack(">hhh", api, least, most) for api, (least, most) in VERSIONS.items()
        )

    def metadata(self, asked: Asked, version: int) -> bytes:
        broker = (
            struct.pack(">i", 1) + text("127.0.0.1") + struct.pack(">i", self.port) + (text(None) if version else b"")
        )
        numbers = range(self.partitions)
        partitions = b"".join(struct.pack(">hii", 0, n, 1) + struct.pack(">ii", 1, 1) * 2 for n in numbers)
        topic = (
            struct.pack(">h", 0)
            + text(TOPIC)
            + (b"\0" if version else b"")
            + struct.pack(">i", len(numbers))
            + partitions
        )
        controller = struct.pack(">i", 1) if version else b""
        return struct.pack(">i", 1) + broker + controller + struct.pack(">i", 1) + topic

    def coordinator(self, asked: Asked, version: int) -> bytes:
        return struct.pack(">hi", 0, 1) + text("127.0.0.1") + struct.pack(">i", self.port)

    def list_offsets(self, asked: Asked, version: int) -> bytes:
        asked.take("i")
        committed = asked.take("b")[0] == 1 if version >= 2 else False
        asked.take("i")
        asked.text()
        _, _, wanted = asked.take("iiq")
        log = self.log
        latest = log.stable if committed else log.end
        when, offset = {-1: (-1, latest), -2: (-1, log.start)}.get(wanted) or log.find(wanted)
        answer = struct.pack(">i", 1) + text(TOPIC) + struct.pack(">iihqq", 1, 0, 0, when, offset)
        return (struct.pack(">i", 0) if version >= 2 else b"") + answer

    def fetch(self, asked: Asked, version: int) -> bytes:
        _, wait_ms, _, _, committed, topics = asked.take("iiiibi")
        if not topics:
            time.sleep(wait_ms / 1000)
            return struct.pack(">ii", 0, 0)
        asked.text()
        _, _, offset, _ = asked.take("iiqi")
        log = self.log
        error = self.faults.pop(0) if self.faults else 0
        limit = log.stable if committed else log.end
        if not error and not log.start <= offset <= log.end:
            error = OFFSET_OUT_OF_RANGE
        if not error and offset >= limit:
            time.sleep(wait_ms / 1000)
        entries = [e for e in log.entries if not error and e.last >= offset and e.first < limit][:2]
        aborted = [each for each in log.aborted if committed and each[2] >= offset]
        records = b"".join(entry.encode() for entry in entries)
        answer = struct.pack(">ihqqi", 0, error, log.end, log.stable, len(aborted))
        answer += b"".join(struct.pack(">qq", producer, first) for producer, first, _ in aborted)
        answer += struct.pack(">i", len(records)) + records
        return struct.pack(">ii", 0, 1) + text(TOPIC) + struct.pack(">i", 1) + answer


ANSWERS = {
    FETCH: WireBroker.fetch,
    LIST_OFFSETS: WireBroker.list_offsets,
    METADATA: WireBroker.metadata,
    FIND_COORDINATOR: WireBroker.coordinator,
}


class Asked:
    """A request, read from its front."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, form: str) -> tuple[int, ...]:
        found = struct.unpack_from(f">{form}", self.data, self.at)
        self.at += struct.calcsize(f">{form}")
        return found

    def text(self) -> None:
        (size,) = self.take("h")
        self.at += max(0, size)


def text(value: str | None) -> bytes:
    return struct.pack(">h", -1) if value is None else struct.pack(">h", len(value)) + value.encode()


def exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise OSError("closed")
        data += part
    return data


def varint(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def record(delta: int, key: bytes | None, value: bytes) -> bytes:
    body = b"\0" + varint(0) + varint(delta)
    body += varint(-1) if key is None else varint(len(key)) + key
    body += varint(len(value)) + value + varint(0)
    return varint(len(body)) + body


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
