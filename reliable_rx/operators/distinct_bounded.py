"""`distinct` that forgets: after a time, or to make room for other keys.

It has the name and the state of the one that never does, so that an edit may bound what has run without a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from reliable_rx.errors import LimitExceeded
from reliable_rx.operators.contract.operator import Context, Stage
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.operators.evict import Evict, too_many

if TYPE_CHECKING:
    from reliable_rx.runtime.settings import Before


@frozen
class DistinctBounded(Stage, name="distinct"):
    keeps_inner = raises = True
    compares: ClassVar = {"seen": "keys"}
    free = ("ttl_s", "keys_max", "evict")
    key_mapper: Callable[[Any], Any] | None
    ttl_s: float
    keys_max: int | None
    evict: Evict

    @dataclass(slots=True)
    class State:
        seen: dict[Any, Any] = field(default_factory=dict)
        """When each key passed, in seconds, in the order in which keys are given up."""
        compared: list[Any] = field(default_factory=list)
        """Nothing: what has no hash is refused where keys are forgotten."""

    def settings(self) -> dict[str, Any]:
        return {"comparer": False, "forgets": True}

    def adopt(self, state: State, before: Before) -> bool:
        return before.reads_the_same and not state.compared

    def on_adopted(self, cx: Context, before: Before) -> None:
        if not before.settings.get("forgets"):  # of its keys nobody knows since when: they are as old as the edit
            cx.state.seen = dict.fromkeys(cx.state.seen, cx.now)

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        now, passed_s, key_mapper = cx.now, cx.state.seen, self.key_mapper
        self._forget(passed_s, now)
        out: list[Any] = []
        try:
            for value in values:
                key = value if key_mapper is None else key_mapper(value)
                before = passed_s.get(key)
                if before is None or before + self.ttl_s < now:
                    self._remember(cx, passed_s, key, now)
                    out.append(value)
                elif self.evict == "least_recent":
                    passed_s[key] = passed_s.pop(key)
        finally:
            if out:
                cx.emit_all(out)

    def _forget(self, passed_s: dict[Any, float], now: float) -> None:
        while passed_s:
            key = next(iter(passed_s))
            if passed_s[key] + self.ttl_s >= now:
                return
            del passed_s[key]

    def _remember(self, cx: Any, passed_s: dict[Any, float], key: Any, now: float) -> None:
        passed_s.pop(key, None)
        most: int = cx.node.plan.limits.distinct_keys_max
        while self.keys_max is not None and len(passed_s) >= self.keys_max:
            if self.evict == "fail":
                raise too_many(cx, "keys", self.keys_max, "keys_max")
            del passed_s[next(iter(passed_s))]
        if len(passed_s) >= most:
            raise LimitExceeded(
                f"{cx.node.path} remembers more than {most:,} keys: raise Limits(distinct_keys_max=...) or bound it",
                path=cx.node.path,
                limit="distinct_keys_max",
                most=most,
            )
        if key == key:  # nan is found by identity, which a checkpoint does not keep
            passed_s[key] = now
