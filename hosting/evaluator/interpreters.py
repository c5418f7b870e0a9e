"""Opening a store of another interpreter: what goes on, what is refused and why, and a checkpoint before the rest.

After a clean stop nothing needs the stored functions: those of the app take over, or a query is suspended
(`hosting.engine.suspended`). The first thing then is a checkpoint, so that everything behind it is of one interpreter.
Turns behind a checkpoint can be taken again by the functions that took them only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from checkpoint.format.code import OtherCode, makers
from hosting.engine.code_text import was_mended
from hosting.engine.hosted_query import COMPLETED, FAILED, RUNNING
from hosting.engine.plan_names import are_comparable, why_untold
from hosting.engine.suspended import Taking, rename
from hosting.engine.unloadable import first_misfit, needed
from hosting.reports.begun_again import afresh_told
from hosting.reports.store_commands import or_repair_it
from reliable_rx.errors import CheckpointRefused
from reliable_rx.operators.contract.arguments import plural
from reliable_rx.shown import listed

if TYPE_CHECKING:
    from hosting.engine.hosted_query import Standing
    from hosting.engine.turns import Create
    from hosting.evaluator.evaluator import QueryEvaluator

SUSPENDED = "suspended"


def check_clean(evaluator: QueryEvaluator, turn: int) -> None:
    """*Raises* `CheckpointRefused` if turns behind the checkpoint of *turn* need code of another interpreter."""
    error = evaluator.engine.suspended.other_code
    if error is not None and evaluator.store.journal.last_turn > turn:
        raise refusal(evaluator, turn, error)


def refusal(evaluator: QueryEvaluator, turn: int, error: OtherCode) -> CheckpointRefused:
    """Say that the turns behind *turn* cannot be taken again here, and what to do."""
    there, count = error.makers, evaluator.store.journal.last_turn - turn
    if there.fits(makers()):
        way = "put the old code back, start it once and stop it cleanly, then change the code"
    else:
        way = (
            f"start it once with Python {there.minor} (reactivex {there.reactivex}, cloudpickle {there.cloudpickle}) "
            f"and stop it cleanly, then start it with this one"
        )
    return CheckpointRefused(
        f"the store was not stopped cleanly, and its last {plural(count, 'turn')} cannot do without {error.what}: "
        f"{way}{or_repair_it(evaluator.store, '; or give up what these turns did with ')}",
        what=error.what,
        where="journal",
    )


def needs_its_own(error: OtherCode) -> CheckpointRefused:
    """Say that a store cannot be used here, as its code is another interpreter's."""
    there = error.makers
    return CheckpointRefused(
        f"the store holds {error.what}, which is not loaded here: use Python {there.minor} (reactivex "
        f"{there.reactivex}, cloudpickle {there.cloudpickle}), or start its app once with this one and stop it cleanly",
        what=error.what,
        where="code",
    )


@contextmanager
def explained(evaluator: QueryEvaluator, turn: int) -> Iterator[None]:
    """Let a replay that meets code of another interpreter say what to do."""
    try:
        yield
    except OtherCode as error:
        raise refusal(evaluator, turn, error) from error


def settle(evaluator: QueryEvaluator) -> None:
    """Report what was taken over and what is suspended, and have it stored before the first turn."""
    engine = evaluator.engine
    check_left(evaluator)
    for name, error in engine.suspended.misfits.items():
        evaluator.unloaded.check_name(name, error)
    check_kept(evaluator, engine.suspended.declared)
    wake(evaluator)
    for name, kept in engine.suspended.items():
        if kept.status == COMPLETED:
            continue  # it lacks nothing
        loss = "it has failed, and" if kept.status == FAILED else "it sees no events, and"
        evaluator.incidents.report(
            SUSPENDED, name,
            f"it is suspended: {loss} the store holds {kept.why}, and the app does not declare it; start the app that "
            f"does, or a program of the Python that made it, and it goes on from its state; or dispose of it",
        )  # fmt: skip
    if engine.suspended.other_code is not None:
        report_taken_over(evaluator, engine.suspended.other_code.what)
        evaluator.outlets.open()
        evaluator.checkpointer.now(full=True)


def report_taken_over(evaluator: QueryEvaluator, what: str) -> None:
    """Say which queries went on from what another interpreter has stored; it lasts only if something was given up."""
    names, reports = evaluator.engine.suspended.taken_over, evaluator.engine.reports
    misfits = evaluator.engine.suspended.misfits
    lost = [name for name in names if name in reports and (reports[name].dropped or reports[name].fresh)]
    lost += [name for name in misfits if name not in lost]
    message = f"the store holds {what}: {listed(names) or 'no query'} of the app went on from what was stored"
    if lost:
        message += f"; the state of operators in {listed(lost)} was given up (statistics().reports)"
        message += "".join(f"; that of {name!r} {needed(error.fields['gone'])}" for name, error in misfits.items())
    else:
        evaluator.warnings.tell(message)
        return
    evaluator.warnings.append(message)


def check_left(evaluator: QueryEvaluator) -> None:
    """*Raises* `CheckpointRefused` if queries would be suspended that this evaluator is to leave alone."""
    left = evaluator.engine.suspended
    names = [name for name in left.anew if not left.may_be_left(name)]
    if names:
        why = left[names[0]].why
        raise CheckpointRefused(
            f"this would suspend {listed(names)}: the store holds {why}; do it with the Python that made it, or give "
            f"the app that declares them",
            what=why,
            where="code",
        )


def check_kept(evaluator: QueryEvaluator, names: Iterable[str]) -> None:
    """*Raises* `CheckpointRefused` if one of *names* is suspended, and its state does not fit the classes of today."""
    suspended = evaluator.engine.suspended
    for kept in [suspended[name] for name in names if name in suspended]:
        evaluator.unloaded.check_name(kept.name, first_misfit(kept.read(Taking({}))[1]))


def wake(evaluator: QueryEvaluator) -> None:
    """Let those go on whose own code can be loaded again: the Python that made it is back."""
    suspended = evaluator.engine.suspended
    kept = sorted(suspended.values(), key=lambda each: each.top.born)
    able = [each for each in kept if each.name not in suspended.anew]
    turns = [turn for each in able if (turn := suspended.creation_of(each, evaluator.turns.now())) is not None]
    woken = [turn.name for turn in turns if suspended[turn.name].status == RUNNING]
    check_kept(evaluator, woken)
    for turn in turns:
        with afresh_told(evaluator.engine.reports, turn.name, "goes on"):
            evaluator.turns.take(turn)
    if woken:
        evaluator.warnings.append(
            f"no longer suspended: {listed(woken)}; they go on from their state, and have missed what came meanwhile"
        )


def is_mended(there: Standing, turn: Create) -> bool:
    """Whether *turn* creates another query than one that has failed under another Python, as its text tells."""
    failure = there.failure
    return there.status == FAILED and failure is not None and was_mended(failure.text, turn.code.query)


def created(evaluator: QueryEvaluator, turn: Create) -> None:
    """Take *turn*; run a query again that had failed before it was suspended and is mended; close its incident."""
    if turn.name not in evaluator.engine.standing and turn.name not in evaluator.engine.suspended:
        evaluator.late.take_create(turn)  # thousands may come at once
        return
    with afresh_told(evaluator.engine.reports, turn.name, "was edited"):
        _created(evaluator, turn)
    resolve(evaluator, turn.name)


def _created(evaluator: QueryEvaluator, turn: Create) -> None:
    evaluator.late.take_create(turn)
    there = evaluator.engine.standing.get(turn.name)
    if there is not None and is_mended(there, turn):
        evaluator.late.take_create(turn)
        there = evaluator.engine.standing.get(turn.name)
    if there is not None and there.status == RUNNING:
        evaluator.engine.suspended.untold.pop(turn.name, None)


def unchanged(evaluator: QueryEvaluator, there: Standing, turn: Create) -> None:
    """Leave *there* as it is: *turn* creates the same, or nobody can tell, since another Python has hashed it.

    It is known by what it is called here from then on, so that an edit can be told from the next start on.
    """
    engine = evaluator.engine
    if not are_comparable(known := engine.plans.ids[there.plan], turn.plan):
        why = why_untold(turn.plan, known)
        rename(engine, there, turn)
        engine.suspended.untold[turn.name] = why
    if there.error is not None:
        evaluator.reporter.told_unchanged(turn.name)


def resolve(evaluator: QueryEvaluator, name: str) -> None:
    """Close the incident of a query that is suspended no more."""
    if evaluator.incidents.any_open and name not in evaluator.engine.suspended:
        evaluator.incidents.resolve(SUSPENDED, name)
