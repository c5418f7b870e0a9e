"""The compiled plans of an engine: shared by queries that differ in nothing, known to the store by `plan_names`.

A plan no query uses any more is forgotten at a full checkpoint once there are many of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Set
from contextlib import contextmanager
from time import monotonic, thread_time
from typing import Any

from checkpoint.format.codec import decode
from checkpoint.format.same_code import is_same_code
from hosting.engine.plan_names import content_in, content_of, is_here, name_of
from hosting.engine.storable import check_storable, code_of
from hosting.engine.watched_names import WatchedNames
from reliable_rx.event_time import EventTime
from reliable_rx.functions.contents import Content, content
from reliable_rx.limits import Limits
from reliable_rx.query.identity import content_hash
from reliable_rx.query.query import Node, Query
from reliable_rx.query.refusal import refuse_arguments, refuse_foreign
from reliable_rx.query.size import check_size
from reliable_rx.runtime.hub import reads_queries
from reliable_rx.runtime.plan import Operators, Plan, PlanNode
from reliable_rx.runtime.plan_keys import lifted, recognise
from reliable_rx.runtime.plan_reuse import MADE_MAX, let_others_use
from reliable_rx.runtime.signatures import Signature, signature
from reliable_rx.runtime.stage_context import too_deep

UNUSED_MAX = 1000
COMPARED_MAX = 10_000
ATOMS = frozenset((int, float, str, bytes, bool, type(None)))
DEAR_S, DEAR_PAUSE = 0.05, 5.0
"""What takes longer to read is read again after so many times as long: a thousand queries may share one table."""
CODE_BYTES_MAX = 1 << 16
"""A plan that closes over more is written anew each time, so that its tables are not kept twice."""


class Plans:
    """Plans by what makes them equal here, and by their name in the store."""

    def __init__(self) -> None:
        self.shared: dict[Hashable, Plan] = {}
        self.by_id: dict[str, Plan] = {}
        self.ids: dict[Plan, str] = {}
        self.unsaved: dict[str, Plan] = {}
        self.stored: dict[str, tuple[bytes, Limits]] = {}
        self.codes: dict[Plan, bytes] = {}
        self.contents: dict[Plan, Content] = {}
        """What the plans do that were compiled here, as it was then."""
        self.dear: dict[Plan, float] = {}
        """Until when what a plan holds is not read again, since that takes long."""
        self.watched = WatchedNames()
        self.looks_once, self.looked_at = False, set[Plan]()
        self.checked: EventTime | None = None
        self.renewed = set[Plan]()
        """Those that do what others did before, with classes that have come since under the same names."""
        self.compared: dict[tuple[str, str], bool] = {}
        self.signatures: list[Signature] = []
        self.unsaved_signatures = 0

    def compile(self, node: Node, limits: Limits) -> tuple[Plan, tuple[Any, ...]]:
        """Return the shared plan for *node*, compiling it the first time, and its routing keys.

        *Raises* `QueryRefused` for what cannot be hosted, or not be stored.
        """
        check_size(node)
        found, keys = recognise(node)
        plan = self.shared.get((found, limits))
        if plan is None or not self.is_current(plan):
            shared = lifted(node) if keys else node
            plan = Plan(shared, limits=limits, symbolic=True)
            refuse_foreign(plan)
            refuse_arguments(plan)
            code, there = code_of(plan), content(shared)
            name = name_of(content_of(there.digest, limits), code)
            before = self.contents.get(self.by_id.get(name, plan))
            if before is not None and before.has_other_classes(there):
                self.renewed.add(plan)
            self._know(plan, (found, limits), name)
            self._keep(plan, code)
            self.contents[plan] = there
            self.watched.add(there)
        return plan, keys

    def is_current(self, plan: Plan) -> bool:
        """Whether a plan that was compiled here does what it did then: what it reaches may have been defined anew."""
        if plan in self.looked_at:
            return True
        there = self.contents[plan]
        if not there.classes_hold:
            return False
        if not there.holds and not (self.dear.get(plan, 0.0) > (began := monotonic()) and there.names_hold):
            busy = thread_time()
            now = content(plan.query)
            took_s = thread_time() - busy  # a machine that is busy with something else must not count
            if now.digest != there.digest or there.has_other_classes(now):
                return False
            self.contents[plan] = now
            self.watched.add(now)
            if took_s > DEAR_S:
                self.dear[plan] = began + took_s * DEAR_PAUSE
        if self.looks_once:
            self.looked_at.add(plan)
        return True

    def forget_changed(self) -> bool:
        """Forget the plans that do something else by now than under their name, if there are any."""
        changed = {plan for plan in self.contents if not self.is_current(plan)}
        if changed:
            self._keep_only(self.ids.keys() - changed)
        return bool(changed)

    @contextmanager
    def looking_once(self) -> Iterator[None]:
        """Look at each plan once only within: nothing that it reaches changes meanwhile."""
        before, self.looks_once = self.looks_once, True
        try:
            yield
        finally:
            self.looks_once = before
            if not before:
                self.looked_at.clear()

    def compile_stored(self, identity: str, query: Node, limits: Limits) -> Plan:
        """Compile a plan that came out of a store."""
        plan = Plan(query, limits=limits, symbolic=True)
        refuse_foreign(plan)
        self._know(plan, ("stored", identity), identity)
        return plan

    @reads_queries
    def find(self, identity: str) -> Plan | None:
        """Return a plan that is known, or that a store has.

        *Raises* `OtherCode` if its functions are stored by another interpreter.
        """
        plan = self.by_id.get(identity)
        if plan is None and identity in self.stored:
            code, limits = self.stored[identity]
            plan = self.compile_stored(identity, decode(code), limits)
            self._keep(plan, code)
        return plan

    def has_changed(self, plan: Plan) -> bool:
        """Whether what *plan* does is not what it did when it was stored, since code that it reaches has changed."""
        name = self.ids[plan]
        return is_here(name) and content_of(content_hash(plan.query), plan.limits) != content_in(name)

    def have_same_code(self, plan: Plan, other: Plan) -> bool:
        """Whether two plans are stored as the same code, though maybe not as the same bytes."""
        names = self.ids[plan], self.ids[other]
        found = self.compared.get(names)
        if found is None:  # many queries share one
            if len(self.compared) >= COMPARED_MAX:
                self.compared.clear()
            found = self.compared[names] = is_same_code(self.code_of(plan), self.code_of(other))
        return found

    def check(self, name: str, keys: tuple[Any, ...], clock: EventTime | None) -> None:
        """Refuse a routing key or a clock that cannot be stored. *Raises* `QueryRefused`."""
        if keys and type(keys[0]) not in ATOMS:
            check_storable(name, "the key", keys)
        if clock is not None and clock is not self.checked:  # many queries share one
            check_storable(name, "the clock", clock)
            self.checked = clock

    def code_of(self, plan: Plan) -> bytes:
        """Return what a store needs to have *plan* again."""
        return self.codes.get(plan) or code_of(plan)

    def _keep(self, plan: Plan, code: bytes) -> None:
        if len(code) <= CODE_BYTES_MAX:
            self.codes[plan] = code

    def _know(self, plan: Plan, key: Hashable, identity: str) -> None:
        self.shared[key] = plan
        self.ids[plan] = identity
        self.by_id[identity] = self.unsaved[identity] = plan

    def prune(self, used: Iterable[Plan]) -> None:
        """Forget the plans that are not *used*, if there are many of them."""
        if len(self.ids) <= UNUSED_MAX:
            return
        self._keep_only(set(used))

    def _keep_only(self, keep: Set[Plan]) -> None:
        self.shared = {key: plan for key, plan in self.shared.items() if plan in keep}
        self.ids = {plan: identity for plan, identity in self.ids.items() if plan in keep}
        self.by_id = {identity: plan for identity, plan in self.by_id.items() if plan in keep}
        self.unsaved = {identity: plan for identity, plan in self.unsaved.items() if plan in keep}
        self.codes = {plan: code for plan, code in self.codes.items() if plan in keep}
        self.contents = {plan: each for plan, each in self.contents.items() if plan in keep}
        self.dear = {plan: until for plan, until in self.dear.items() if plan in keep}
        self.renewed &= keep
        self.watched.reset(self.contents.values())

    def number(self, plan: Plan) -> int:
        """Return the number under which rows of *plan* are stored: that of its signature."""
        if plan.number == 0:
            shape = signature(plan)
            if shape not in self.signatures:
                self.signatures.append(shape)
                self.unsaved_signatures += 1
            plan.number = self.signatures.index(shape) + 1
        return plan.number


def plan_inner(query: Query[Any], node: PlanNode) -> tuple[Plan, Operators]:
    """Return the plan of an inner sequence that *node* makes, one of before where it differs in its values only."""
    for plan in node.made:
        alike = plan.alike
        if alike is not None:
            ops = alike.operators(query)
            if ops is not None:
                return plan, ops
        elif plan.query is query.node:
            return plan, plan.operators
    check_size(query.node)
    plan = Plan(query.node, limits=node.plan.limits, prefix=f"{node.path}/inner", symbolic=True, around=node.plan)
    if plan.is_too_deep:
        raise too_deep(plan)
    refuse_foreign(plan)
    let_others_use(plan)
    node.made = [plan, *node.made[: MADE_MAX - 1]]
    return plan, plan.operators
