"""What has been acknowledged, on its way to the broker: one commit at a time, the newest offset of each partition.

Nothing here is needed to go on after a crash: positions are in the evaluator's checkpoint. Committed offsets serve the
broker's own tools, which show by them how far a group is. So a commit that fails is retried and warned about once, and
never stops a query; a broker refuses commits for seconds while a group of the same name has members joining.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hosting.reports.log import LOG

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, TopicPartition


class Offsets:
    """Commits offsets of *topic* under the name of *group*, at most every *interval_s* seconds; None commits none."""

    def __init__(self, topic: str, group: str | None, interval_s: float) -> None:
        self.topic, self.group = topic, group
        self._interval_s = interval_s
        self._due: dict[int, int] = {}
        self._under_way = False
        self._next_time = 0.0
        self._warned = False
        self._lock = threading.Lock()

    def note(self, partition: int, offset: int) -> None:
        """Let *offset* be the next to read in *partition*."""
        if self.group is not None:
            with self._lock:
                self._due[partition] = offset

    @property
    def settled(self) -> bool:
        """Whether the broker has everything."""
        return not self._due and not self._under_way

    def begin(self, consumer: Consumer, *, at_once: bool = False) -> None:
        """Begin a commit if one is due and none is under way; `ended` is called from within a later poll."""
        now = time.monotonic()
        if not self._due or self._under_way or (now < self._next_time and not at_once):
            return
        from confluent_kafka import KafkaException, TopicPartition

        with self._lock:
            taken, self._due = self._due, {}
        self._under_way, self._next_time = True, now + self._interval_s
        offsets = [TopicPartition(self.topic, partition, offset) for partition, offset in taken.items()]
        try:
            consumer.commit(offsets=offsets, asynchronous=True)
        except KafkaException as error:
            self.ended(error.args[0], offsets)

    def give_up(self, waited_s: float) -> None:
        """Tell that the brokers' tools show an older position: nothing is asked any more."""
        LOG.warning(
            "topic %s: brokers have not taken the last offsets of group %s within %g s; tools show older ones until "
            "the next run commits, and nothing is read twice for it",
            self.topic, self.group, waited_s,
        )  # fmt: skip

    def ended(self, error: KafkaError | None, offsets: Sequence[TopicPartition]) -> None:
        """Take the broker's answer; what it refused is due again, unless something newer is."""
        self._under_way = False
        refused = [each for each in offsets if error is not None or each.error is not None]
        if not refused:
            self._warned = self._warned and not offsets
            return
        with self._lock:
            for each in refused:
                self._due.setdefault(each.partition, each.offset)
        if not self._warned:
            self._warned = True
            why = error if error is not None else refused[0].error
            LOG.warning("topic %s: offsets of group %s are not committed yet: %s", self.topic, self.group, why)
