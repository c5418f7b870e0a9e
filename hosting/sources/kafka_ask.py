"""What is asked of the brokers besides records: what partitions there are, how far they reach, what was written when.

Questions have a client of their own. A broker answers one connection in order, so that on the consumer's each would
wait for the fetch before it, and librdkafka 2.16 was seen never to answer one that is asked while another thread polls.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from hosting.reports.log import LOG
from reliable_rx.errors import SourceFailed

if TYPE_CHECKING:
    from confluent_kafka import Consumer

T = TypeVar("T")

ASK_AGAIN_S = 60.0
NOT_FOR_QUESTIONS = ("stats_cb", "statistics.interval.ms", "throttle_cb", "logger")
"""What a client gathers for a poll, without limit: this one is polled only when it is asked something."""


class Asker:
    """Asks the brokers about *topic*; they have *timeout_s* seconds to answer. Safe from any thread."""

    def __init__(self, topic: str, settings: Mapping[str, Any], timeout_s: float) -> None:
        self._topic = topic
        self._settings = {name: value for name, value in settings.items() if name not in NOT_FOR_QUESTIONS}
        self._timeout_s = timeout_s
        self._consumer: Consumer | None = None
        self._known: dict[int, int] = {}
        self._ask_at = 0.0
        self._lock = threading.Lock()

    def partitions_lately(self) -> dict[int, int]:
        """Return the `partitions`; if the brokers do not answer now, and have before, what they answered then.

        After a question without an answer the next one waits a minute: whoever asks has other things to do.
        """
        if not self._known or time.monotonic() >= self._ask_at:
            try:
                return self.partitions()
            except SourceFailed as error:
                if not self._known:
                    raise
                self._ask_at = time.monotonic() + ASK_AGAIN_S
                LOG.warning("partitions that have been added are not seen: %s", error.message)
        return self._known

    def partitions(self) -> dict[int, int]:
        """Return the partitions in order, each with the id of the broker that leads it."""
        metadata = self._ask("the partitions", lambda consumer: consumer.list_topics(self._topic, self._timeout_s))
        topic = metadata.topics[self._topic]
        if not topic.partitions:
            message = f"the brokers know no topic {self._topic!r}: {topic.error}"
            raise SourceFailed(f"{message}; make it, or correct its name", source=self._topic)
        self._known = {number: topic.partitions[number].leader for number in sorted(topic.partitions)}
        return self._known

    def bounds(self, number: int) -> tuple[int, int]:
        """Return the first offset of a partition and the one behind the last that may be read."""
        from confluent_kafka import TopicPartition

        wanted, what = TopicPartition(self._topic, number), f"the offsets in partition {number}"
        found = self._ask(what, lambda consumer: consumer.get_watermark_offsets(wanted, timeout=self._timeout_s))
        if found is None:
            raise self._silent(what, f"nothing came in {self._timeout_s:g} s")
        return found

    def find(self, number: int, time_ms: int) -> int | None:
        """Return the offset of the first record of a partition at or after *time_ms*, None if there is none."""
        from confluent_kafka import TopicPartition

        wanted, what = [TopicPartition(self._topic, number, time_ms)], f"the offset of a time in partition {number}"
        (found,) = self._ask(what, lambda consumer: consumer.offsets_for_times(wanted, timeout=self._timeout_s))
        if found.error is not None:
            raise self._silent(what, found.error)
        return found.offset if found.offset >= 0 else None

    def _ask(self, what: str, question: Callable[[Consumer], T]) -> T:
        from confluent_kafka import KafkaException

        with self._lock:
            consumer = self._consumer = self._consumer or connected(self._settings)
            try:
                consumer.poll(0)  # where tokens are renewed
                return question(consumer)
            except KafkaException as error:
                raise self._silent(what, error.args[0]) from error

    def _silent(self, what: str, why: object) -> SourceFailed:
        message = f"the brokers do not say {what} of topic {self._topic!r}: {why}"
        return SourceFailed(f"{message}; look at them, at bootstrap_servers= and settings=", source=self._topic)


def connected(settings: Mapping[str, Any]) -> Consumer:
    """Make a client. *Raises* `ValueError` for settings that it does not take."""
    from confluent_kafka import Consumer, KafkaException

    try:
        return Consumer(dict(settings))
    except KafkaException as error:
        raise ValueError(f"the Kafka client refuses its settings: {error.args[0]}; correct settings=") from error
