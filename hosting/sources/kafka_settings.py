"""How the Kafka client is set up for a source: what is the user's to say, and what the source's promises rest on.

Security, compression, racks, addresses of proxies and the like are passed through. What decides which records come,
from where and how often has one place each: a parameter of `KafkaSource`, or no place at all because another value
would lose or double events.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ISOLATIONS = ("read_committed", "read_uncommitted")
NO_GROUP = "reliable-rx"
"""The client must be told of some group; without a group of the user's nothing is ever committed under this name."""

SAID_ELSEWHERE = {
    "bootstrap.servers": "bootstrap_servers=",
    "metadata.broker.list": "bootstrap_servers=",
    "group.id": "group=",
    "isolation.level": "isolation=",
    "fetch.min.bytes": "bytes_min=",
    "fetch.wait.max.ms": "wait_s=",
    "max.partition.fetch.bytes": "bytes_max=",
    "fetch.message.max.bytes": "bytes_max=",
    "auto.commit.interval.ms": "commit_interval_s=",
}
OURS: Mapping[str, Any] = {
    "enable.auto.commit": False,  # only what a checkpoint covers is committed
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",  # a position that is gone is an error, never another position
    "enable.partition.eof": True,  # it tells how far the ids without records reach
}
DEFAULTS: Mapping[str, Any] = {  # the user may say otherwise
    # What is fetched ahead of a partition that must be paused is fetched again: a slow query over records of 10 bytes
    # made the client receive 1.6 times what was read with these two, 7 times with its own values.
    "queued.min.messages": 3000,
    "fetch.queue.backoff.ms": 5,
    "check.crcs": True,
}
NEVER = {
    "auto.commit.enable": "only what a checkpoint covers is committed",
    "partition.assignment.strategy": "partitions are assigned by whoever opens them",
    "group.protocol": "partitions are assigned by whoever opens them",
    "group.instance.id": "partitions are assigned by whoever opens them",
    "error_cb": "the source listens to it; errors are raised or logged",
    "on_commit": "the source listens to it; failures are retried and logged",
}


def client_settings(
    given: Mapping[str, Any],
    *,
    bootstrap_servers: str,
    group: str | None,
    isolation: str,
    bytes_min: int,
    wait_s: float,
    bytes_max: int,
) -> dict[str, Any]:
    """Merge what the user gives with what the source needs. *Raises* `ValueError` for what is not his to set."""
    for name in given:
        _refuse(name)
    if isolation not in ISOLATIONS:
        raise ValueError(f"isolation must be one of {', '.join(ISOLATIONS)}, got {isolation!r}")
    if bytes_min < 1 or bytes_max < 1 or wait_s < 0:
        raise ValueError(f"bytes_min={bytes_min}, bytes_max={bytes_max} are 1 or more, wait_s={wait_s} is not negative")
    return {
        **DEFAULTS,
        **given,
        **OURS,
        "bootstrap.servers": bootstrap_servers,
        "group.id": NO_GROUP if group is None else group,
        "isolation.level": isolation,
        "fetch.min.bytes": bytes_min,
        "fetch.wait.max.ms": round(wait_s * 1000),
        "max.partition.fetch.bytes": bytes_max,
    }


def _refuse(name: str) -> None:
    if name in SAID_ELSEWHERE:
        raise ValueError(f"settings has {name!r}; say it with {SAID_ELSEWHERE[name]}")
    if name in OURS:
        raise ValueError(f"settings has {name!r}, which must be {OURS[name]!r} or events could be lost; leave it out")
    if name in NEVER:
        raise ValueError(f"settings has {name!r}, which has no place here: {NEVER[name]}; leave it out")
