"""Opening a store of another interpreter: what goes on, what is refused and why, and a checkpoint before the rest.

After a clean stop nothing needs the stored functions: those of the app take over, or a query is suspended
(`hosting.engine.suspended`). The first thing then is a checkpoint, so that everything behind it is of one interpreter.
Turns behind a checkpoint can be taken again by the functions that took them only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Protocol

from checkpoint.format.code import OtherCode, makers
from checkpoint.store import Store
from hosting.engine.code_text import was_mended
from hosting.engine.engine import QueryEngine
from hosting.engine.hosted_query import COMPLETED, FAILED, RUNNING, Standing
from hosting.engine.plan_names import are_comparable, why_untold
from hosting.engine.reopening import Taking
from hosting.engine.suspended import rename
from hosting.engine.turns import Create
from hosting.engine.unloadable import first_misfit, needed
from hosting.evaluator.function_texts import FunctionTexts
from hosting.evaluator.late_readers import LateReaders
from hosting.evaluator.turn_executor import TurnExecutor
from hosting.evaluator.unloaded import Unloaded
from hosting.reports.begun_again import afresh_told
from hosting.reports.incidents import Incidents
from hosting.reports.start_warnings import StartWarnings
from hosting.reports.store_commands import or_repair_it
from reliable_rx.errors import CheckpointRefused
from reliable_rx.operators.contract.arguments import plural
from reliable_rx.shown import listed

SUSPENDED = "suspended"


def needs_its_own(error: OtherCode) -> CheckpointRefused:
    """Say that a store cannot be used here, as its code is another interpreter's."""
    there = error.makers
    return CheckpointRefused(
        f"the store holds {error.what}, which is not loaded here: use Python {there.minor} (reactivex "
        f"{there.reactivex}, cloudpickle {there.cloudpickle}), or start its app once with this one and stop it cleanly",
        what=error.what,
        where="code",
    )


def is_mended(there: Standing, turn: Create) -> bool:
    """Whether *turn* creates another query than one that has failed under another Python, as its text tells."""
    failure = there.failure
    return there.status == FAILED and failure is not None and was_mended(failure.text, turn.code.query)


class Reported(Protocol):
    """What is told of queries that were declared as they are."""

    def told_unchanged(self, name: str) -> None: ...


class Interpreters:
    """Takes up what another interpreter has stored, for one evaluator; *store_now* takes a checkpoint of all of it."""

    def __init__(
        self,
        engine: QueryEngine,
        store: Store,
        turns: TurnExecutor,
        *,
        late: LateReaders,
        unloaded: Unloaded,
        texts: FunctionTexts,
        incidents: Incidents,
        warnings: StartWarnings,
        reports: Reported,
        store_now: Callable[[], None],
    ) -> None:
        self._engine, self._store, self._turns, self._late, self._unloaded = engine, store, turns, late, unloaded
        self._incidents, self._warnings, self._reports, self._store_now = incidents, warnings, reports, store_now
        self.texts = texts

    def check_clean(self, turn: int) -> None:
        """*Raises* `CheckpointRefused` if turns behind the checkpoint of *turn* need code of another interpreter."""
        error = self._engine.suspended.other_code
        if error is not None and self._store.journal.last_turn > turn:
            raise self._refusal(turn, error)

    def _refusal(self, turn: int, error: OtherCode) -> CheckpointRefused:
        """Say that the turns behind *turn* cannot be taken again here, and what to do."""
        there, count = error.makers, self._store.journal.last_turn - turn
        if there.fits(makers()):
            way = "put the old code back, start it once and stop it cleanly, then change the code"
        else:
            way = (
                f"start it once with Python {there.minor} (reactivex {there.reactivex}, cloudpickle "
                f"{there.cloudpickle}) and stop it cleanly, then start it with this one"
            )
        changed = self.texts.changed()
        since = f" (changed since, and an edit behind these turns then: {listed(changed)})" if changed else ""
        return CheckpointRefused(
            f"the store was not stopped cleanly, and its last {plural(count, 'turn')} cannot do without {error.what}: "
            f"{way}{since}{or_repair_it(self._store, '; or give up what these turns did with ')}",
            what=error.what,
            where="journal",
        )

    @contextmanager
    def explained(self, turn: int) -> Iterator[None]:
        """Let a replay that meets code of another interpreter say what to do."""
        try:
            yield
        except OtherCode as error:
            raise self._refusal(turn, error) from error

    def settle(self) -> None:
        """Report what was taken over and what is suspended, and have it stored before the first turn."""
        engine = self._engine
        self._check_left()
        for name, error in engine.suspended.misfits.items():
            self._unloaded.check_name(name, error)
        self.check_kept(engine.suspended.declared)
        self._wake()
        for name, kept in engine.suspended.items():
            if kept.status == COMPLETED:
                continue  # it lacks nothing
            loss = "it has failed, and" if kept.status == FAILED else "it sees no events, and"
            self._incidents.report(
                SUSPENDED, name,
                f"it is suspended: {loss} the store holds {kept.why}, and the app does not declare it; start the app "
                f"that does, or a program of the Python that made it, and it goes on from its state; or dispose of it",
            )  # fmt: skip
        if engine.suspended.other_code is not None:
            self._report_taken_over(engine.suspended.other_code.what)
            self._store_now()
        self._catch_up()

    def _report_taken_over(self, what: str) -> None:
        """Say which queries went on from what another interpreter has stored; it lasts only if some was given up."""
        names, reports = self._engine.suspended.taken_over, self._engine.reports
        misfits = self._engine.suspended.misfits
        had = {operator[0] for signature in self._engine.plans.signatures for operator in signature}
        told = [(name, reports[name]) for name in names if name in reports]
        lost = [name for name, report in told if report.dropped or not had.isdisjoint(report.fresh)]
        lost += [name for name in misfits if name not in lost]
        message = f"the store holds {what}: {listed(names) or 'no query'} of the app went on from what was stored"
        if lost:
            message += f"; the state of operators in {listed(lost)} was given up (statistics().reports)"
            message += "".join(f"; that of {name!r} {needed(error.fields['gone'])}" for name, error in misfits.items())
        else:
            self._warnings.tell(message)
            return
        self._warnings.append(message)

    def _check_left(self) -> None:
        """*Raises* `CheckpointRefused` if queries would be suspended that this evaluator is to leave alone."""
        left = self._engine.suspended
        names = [name for name in left.anew if not left.may_be_left(name)]
        if names:
            why = left[names[0]].why
            raise CheckpointRefused(
                f"this would suspend {listed(names)}: the store holds {why}; do it with the Python that made it, or "
                f"give the app that declares them",
                what=why,
                where="code",
            )

    def check_kept(self, names: Iterable[str]) -> None:
        """*Raises* `CheckpointRefused` if one of *names* is suspended, and its state does not fit today's classes."""
        suspended = self._engine.suspended
        for kept in [suspended[name] for name in names if name in suspended]:
            self._unloaded.check_name(kept.name, first_misfit(kept.read(Taking({}))[1]))

    def _wake(self) -> None:
        """Let those go on whose own code can be loaded again: the Python that made it is back."""
        suspended = self._engine.suspended
        kept = sorted(suspended.values(), key=lambda each: each.top.born)
        able = [each for each in kept if each.name not in suspended.anew]
        turns = [turn for each in able if (turn := suspended.creation_of(each, self._turns.now())) is not None]
        woken = [turn.name for turn in turns if suspended[turn.name].status == RUNNING]
        self.check_kept(woken)
        for turn in turns:
            with afresh_told(self._engine.reports, turn.name, "goes on"):
                self._turns.take(turn)
        if woken:
            self._warnings.append(
                f"no longer suspended: {listed(woken)}; they go on from their state, and have missed what came "
                f"meanwhile"
            )

    def _catch_up(self) -> None:
        """Have queries on event time do at once what the functions of today want done: each is edited to itself."""
        engine = self._engine
        for each in sorted(engine.standing.values(), key=attrgetter("born")):
            if each.clock is not None and each.status == RUNNING and each.clock.must_catch_up:
                limits, spec = each.plan.limits, each.clock.spec
                plan, now = engine.plans.ids[each.plan], self._turns.now()
                self._turns.take(Create(each.name, plan, each.plan, each.keys, each.policy, limits, now, spec))

    def created(self, turn: Create) -> None:
        """Take *turn*; run a query again that had failed before it was suspended and is mended; close its incident."""
        if turn.name not in self._engine.standing and turn.name not in self._engine.suspended:
            with afresh_told(self._engine.reports, turn.name, "begins again"):
                self._late.take_create(turn)  # thousands may come at once
            return
        with afresh_told(self._engine.reports, turn.name, "was edited"):
            self._take_created(turn)
        self.resolve(turn.name)

    def _take_created(self, turn: Create) -> None:
        self._late.take_create(turn)
        there = self._engine.standing.get(turn.name)
        if there is not None and is_mended(there, turn):
            self._late.take_create(turn)
            there = self._engine.standing.get(turn.name)
        if there is not None and there.status == RUNNING:
            self._engine.suspended.untold.pop(turn.name, None)

    def unchanged(self, there: Standing, turn: Create) -> None:
        """Leave *there* as it is: *turn* creates the same, or nobody can tell, since another Python has hashed it.

        It is known by what it is called here from then on, so that an edit can be told from the next start on.
        """
        engine = self._engine
        if not are_comparable(known := engine.plans.ids[there.plan], turn.plan):
            why = why_untold(turn.plan, known)
            rename(engine, there, turn)
            engine.suspended.untold[turn.name] = why
        if there.error is not None:
            self._reports.told_unchanged(turn.name)

    def resolve(self, name: str) -> None:
        """Close the incident of a query that is suspended no more."""
        if self._incidents.any_open and name not in self._engine.suspended:
            self._incidents.resolve(SUSPENDED, name)
