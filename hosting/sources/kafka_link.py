"""The connection of one Kafka source: one consumer, and the one thread that polls it for all open partitions.

Only that thread assigns, gives up, pauses and resumes partitions, between two polls. So nothing it has polled is ever
of an assignment that has changed meanwhile, and what the client still holds of an earlier one it drops itself. Others
ask it by `attach` and `detach`.

The consumer is made with the first open partition and closed with the last. Rejected: a consumer and a thread
per partition (a connection to every broker each); `subscribe` (the brokers would move partitions without our
checkpoints).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hosting.reports.log import LOG
from hosting.reports.tracebacks import with_trace
from hosting.sources.kafka_ask import connected
from hosting.sources.kafka_offsets import Offsets
from hosting.sources.kafka_reader import KafkaReader
from reliable_rx.errors import PositionUnavailable, ReliableRxError, SourceFailed, described

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, TopicPartition


POLL_S = 0.05
PAUSED_POLL_S = 0.005
"""How long a poll waits: what is opened or drained meanwhile must wait for it."""
HOLD_S = 0.05
"""How long all partitions wait for full ones to drain before these are paused: the client then forgets what it has
fetched ahead of them, and must fetch it again."""
CLOSE_S = 3.0
COMMIT_AT_CLOSE_S = 2.0
SAY_AGAIN_S = 60.0
TROUBLE_S = 30.0
"""How long brokers that said nothing more count as away; clients that look for them say so again sooner."""


class Link:
    """Connects the open partitions of *topic* with its brokers."""

    def __init__(self, topic: str, settings: Mapping[str, Any], offsets: Offsets, *, records_max: int) -> None:
        self.topic = topic
        self._settings = {**settings, "error_cb": self._heard, "on_commit": offsets.ended}
        self._offsets = offsets
        self._records_max = records_max
        self._changed = threading.Condition()
        self._readers: dict[int, KafkaReader] = {}
        self._assigned: dict[int, KafkaReader] = {}  # the polling thread's
        self._thread: threading.Thread | None = None
        self._said: dict[str, float] = {}
        self._trouble, self._troubled_at = "", 0.0

    @property
    def trouble(self) -> str:
        """What is waited for: what a client has said of its brokers a moment ago, and no record has come since."""
        return self._trouble if time.monotonic() - self._troubled_at < TROUBLE_S else ""

    def attach(self, reader: KafkaReader) -> None:
        """Fetch for *reader* from now on. *Raises* `SourceFailed` if its partition is open already."""
        with self._changed:
            if reader.number in self._readers:
                message = f"partition {reader.name} of topic {self.topic!r} is open already"
                raise SourceFailed(
                    f"{message}; close it, or make another KafkaSource", source=self.topic, partition=reader.name
                )
            self._readers[reader.number] = reader
            if self._thread is None:
                consumer = connected(self._settings)
                name = f"kafka {self.topic}"
                self._thread = threading.Thread(target=self._run, args=(consumer,), name=name, daemon=True)
                self._thread.start()

    def detach(self, reader: KafkaReader) -> None:
        """Fetch no more for *reader*; with the last one the consumer is closed, for which this waits a little."""
        with self._changed:
            if self._readers.get(reader.number) is not reader:
                return
            del self._readers[reader.number]
            thread = self._thread
            if self._readers or thread is None:
                return
            self._changed.wait_for(lambda: self._thread is not thread or bool(self._readers), timeout=CLOSE_S)
            if self._thread is thread:
                return
        thread.join(CLOSE_S)

    def acknowledge(self, reader: KafkaReader, offset: int) -> None:
        """Tell the brokers in due course that the group has all before *offset*."""
        self._offsets.note(reader.number, offset)

    # -- the polling thread

    def _run(self, consumer: Consumer) -> None:
        self._assigned = {}
        try:
            while self._tend(consumer):
                self._distribute(self._polled(consumer))
                self._press(consumer)
                self._offsets.begin(consumer)
        except BaseException as error:
            LOG.error("%s", with_trace(f"the thread that polls topic {self.topic} has ended", error))
            message = f"topic {self.topic!r} is not polled any more: {described(error)}; start again"
            self._fail(list(self._readers.values()), SourceFailed(message, source=self.topic))
            with self._changed:
                self._thread = None
                self._changed.notify_all()
        consumer.close()

    def _tend(self, consumer: Consumer) -> bool:
        """Assign what has been opened, give up what has been closed; return whether to go on."""
        with self._changed:
            wanted = dict(self._readers)
        if wanted != self._assigned:
            self._assign(consumer, wanted)
        if wanted:
            return True
        self._commit_rest(consumer)
        with self._changed:
            if self._readers:
                return True
            self._thread = None
            self._changed.notify_all()
        return False

    def _assign(self, consumer: Consumer, wanted: dict[int, KafkaReader]) -> None:
        from confluent_kafka import TopicPartition

        closed = [each for number, each in self._assigned.items() if wanted.get(number) is not each]
        opened = [each for number, each in wanted.items() if self._assigned.get(number) is not each]
        if closed:
            consumer.incremental_unassign([TopicPartition(self.topic, each.number) for each in closed])
        if opened:
            consumer.incremental_assign([TopicPartition(self.topic, each.number, each.expected) for each in opened])
        self._assigned = wanted

    def _commit_rest(self, consumer: Consumer) -> None:
        deadline = time.monotonic() + COMMIT_AT_CLOSE_S
        while not self._offsets.settled and time.monotonic() < deadline and not self._readers:
            self._offsets.begin(consumer, at_once=True)
            consumer.poll(PAUSED_POLL_S)
        if not self._offsets.settled and not self._readers:
            self._offsets.give_up(COMMIT_AT_CLOSE_S)

    def _polled(self, consumer: Consumer) -> list[Message]:
        paused = any(reader.paused for reader in self._assigned.values())
        first = consumer.poll(PAUSED_POLL_S if paused else POLL_S)
        if first is None or self._records_max == 1:
            return [] if first is None else [first]
        return [first, *consumer.consume(self._records_max - 1, 0)]

    def _distribute(self, messages: Sequence[Message]) -> None:
        records: dict[int, list[Message]] = {}
        for message in messages:
            if message.error() is None:
                records.setdefault(message.partition(), []).append(message)  # type: ignore[arg-type]
            else:
                self._deliver(records)
                records = {}
                self._answer(message)
        self._deliver(records)

    def _deliver(self, records: dict[int, list[Message]]) -> None:
        if records:
            self._trouble = ""
        for number, each in records.items():
            reader = self._assigned.get(number)
            if reader is not None:
                reader.add(each)

    def _press(self, consumer: Consumer) -> None:
        """Pause the partitions whose readers are full and stay so, go on with those that have been drained."""
        from confluent_kafka import TopicPartition

        def some(readers: list[KafkaReader]) -> list[TopicPartition]:
            return [TopicPartition(self.topic, reader.number) for reader in readers]

        full = [reader for reader in self._assigned.values() if not reader.paused and reader.full]
        deadline = time.monotonic() + HOLD_S
        full = [reader for reader in full if not reader.drains_within(deadline - time.monotonic())]
        drained = [reader for reader in self._assigned.values() if reader.paused and reader.drained]
        if full:
            consumer.pause(some(full))
        if drained:
            consumer.resume(some(drained))
        for reader in full + drained:
            reader.paused = not reader.paused

    # -- errors

    def _answer(self, message: Message) -> None:
        """Take what the client says of a partition, in the order of its records."""
        from confluent_kafka import KafkaError

        error, number = message.error(), message.partition()
        reader = self._assigned.get(-1 if number is None else number)
        if error is None or (number is not None and number >= 0 and reader is None):
            return
        if error.code() == KafkaError._PARTITION_EOF:
            if reader is not None:
                reader.end_at(message.offset() or 0)
        elif error.retriable():
            self._say(error)
        else:
            concerned = list(self._assigned.values()) if reader is None else [reader]
            gone = error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
            for each in concerned:
                each.fail(self._gone(each, error) if gone else self._failed(each, error))

    def _gone(self, reader: KafkaReader, error: KafkaError) -> ReliableRxError:
        message = f"topic {self.topic!r}, partition {reader.name}: offset {reader.expected:,} is wanted: {error.str()}"
        return PositionUnavailable(
            f"{message}; what was there is lost to this reader: keep records for longer, and start elsewhere",
            wanted=reader.expected,
            first=None,
            end=None,
        )

    def _failed(self, reader: KafkaReader, error: KafkaError) -> ReliableRxError:
        message = f"topic {self.topic!r}, partition {reader.name} cannot be read at {reader.expected:,}: {error}"
        fields = {"source": self.topic, "partition": reader.name, "position": reader.expected}
        return SourceFailed(f"{message}; mend that and start again", **fields)

    def _fail(self, readers: Sequence[KafkaReader], failure: ReliableRxError) -> None:
        for reader in readers:
            reader.fail(failure)

    def _heard(self, error: KafkaError) -> None:
        """Take what the client says of itself and its brokers; it calls this from within a poll."""
        if error.fatal():
            for reader in list(self._readers.values()):
                reader.fail(self._failed(reader, error))
        else:
            self._say(error)

    def _say(self, error: KafkaError) -> None:
        """Warn that we wait; once a minute at most for the same."""
        now, name = time.monotonic(), error.name()
        self._trouble, self._troubled_at = f"topic {self.topic}: waiting for its brokers: {error.str()}", now
        if now - self._said.get(name, -SAY_AGAIN_S) >= SAY_AGAIN_S:
            self._said[name] = now
            LOG.warning("%s", self._trouble)
