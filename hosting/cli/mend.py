"""`reliable-rx restart` and `dispose`: what to do about one query of a store on which nothing runs.

Both are turns like those that a running evaluator takes: journalled, then in a checkpoint, so that a kill in between
leaves the one or the other. The evaluator has the inputs of the app, which a journal behind a crash needs, and no
sinks: what they still are to have stays held for them. Queries of the app are neither created nor edited.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from checkpoint.store import Store
from hosting.app import App, Options
from hosting.cli.loading import load_for_store, reach
from hosting.cli.scripts import is_loaded
from hosting.cli.stores import StoreAddress, left_open
from hosting.cli.terminal import agreed, complain, say_all
from hosting.cli.wording import BadUsage, log_nothing
from hosting.engine.cycles import there_are
from hosting.engine.editing import READ_ANEW, taken_over_told
from hosting.engine.ended_readers import ended_over, missing
from hosting.engine.hosted_query import COMPLETED, FAILED
from hosting.evaluator.evaluator import QueryEvaluator
from hosting.evaluator.following import left_behind
from hosting.reports.causes import all_readers_of, name_some, readers_of
from reliable_rx.errors import CheckpointRefused, SourceFailed, described
from reliable_rx.names import query_of

NEVER_FULL = sys.maxsize
GIVE = "give --app MODULE:APP, or --app and the script that it is the store of"


def restart(address: StoreAddress, queries: Sequence[str], *, app: str | None, yes: bool) -> int:
    """Run *queries* again from here on, all or none: without their states, and under the ids that follow.

    One that has not ended has a state to lose: then it is asked, and *Raises* `BadUsage` without consent.
    """

    def act(evaluator: QueryEvaluator) -> str:
        engine = evaluator.engine
        readers = {query: [each for each in all_readers_of(engine, query) if each not in queries] for query in queries}
        before = {query: was(evaluator, query, readers[query], yes=yes) for query in queries}
        done = {query: [each for each in ended_readers(evaluator, query) if each not in queries] for query in queries}
        failed, waited = ended_with_an_error(evaluator), evaluator.intake.late.sources
        evaluator.restart(*queries)
        others = sorted(failed - ended_with_an_error(evaluator) - {*queries})
        told = [told_restart(evaluator, each, before[each], readers[each], done[each], app=app) for each in queries]
        also = [f"those that had failed with it run again too: {name_some(others)}"] if others else []
        stay = [*left_behind(engine, engine.standing, engine.standing)]
        also += [f"still failed, and to be created by their app: {name_some(stay)}"] if stay else []
        also += told_left_out(evaluator, waited - evaluator.intake.late.sources)
        return "; ".join([*told, *also])

    return change(address, queries, app, act, may_be_left=lambda name: False)


def was(evaluator: QueryEvaluator, query: str, readers: Sequence[str], *, yes: bool) -> str:
    """Return how *query* is before it is restarted. *Raises* `BadUsage` if it is not there, or without consent."""
    standing = evaluator.engine.standing.get(query)
    if standing is None:
        raise BadUsage(
            f"{query!r} is suspended, as its code cannot be loaded here; declare it in an app and start that"
        )
    ends = f", and the states of those that read it: {name_some(readers)} (with what waits in them)" if readers else ""
    check_consent(query, standing.status, "a restart", ends, yes=yes)
    return standing.status if standing.error is None else f"{standing.status} with {described(standing.error)}"


def told_restart(
    evaluator: QueryEvaluator, query: str, was: str, readers: Sequence[str], done: Sequence[str], *, app: str | None
) -> str:
    """Say how *query*, which *was* as it is said, is behind its restart: of those that read it some had been *done*."""
    after = evaluator.query(query)
    if after.status == FAILED:
        return f"{query} was {was}; it has failed again at once: {after.error}"
    if after.status == COMPLETED:
        return f"{query} was {was}; it has completed at once, since {why_over(evaluator, query, app=app)}"
    also = f"; so do those that read it, under ids behind an end: {name_some(readers)}" if readers else ""
    also += f"; those that read it and had completed stay so: {name_some(done)}" if done else ""
    return f"{query} was {was}; it runs again, without state, from id {after.emitted:,} on{also}"


def why_over(evaluator: QueryEvaluator, query: str, *, app: str | None) -> str:
    """Say why *query* has nothing to read, and what to do, as the end of a sentence."""
    standing = evaluator.engine.standing
    read = sorted({query_of(each) for each in standing[query].plan.sources} & standing.keys())
    if read:
        return f"what it reads has: name it in one call with {name_some(read)}"
    unseen = "" if app is not None else f"; what is new beside it is found with the sources of the app: {GIVE}"
    return f"its sources have ended: {READ_ANEW}{unseen}"


def ended_readers(evaluator: QueryEvaluator, query: str) -> list[str]:
    """Name those that read *query*, have completed and are to be named in the same call if they are to run again."""
    standing = evaluator.engine.standing
    return [name for name in ended_over(evaluator.engine, query) if standing[name].status == COMPLETED]


def told_left_out(evaluator: QueryEvaluator, sources: Collection[str]) -> list[str]:
    """Say who gets nothing of what is new in *sources*, of whose end it has been told."""
    ended = dict.fromkeys(name for source in sorted(sources) for name in missing(evaluator.engine, source))
    if not ended:
        return []
    return [
        f"of what is new in {name_some(sorted(sources))} nothing is for those that have had its end and are not "
        f"restarted before the next start: {name_some([*ended])}"
    ]


def ended_with_an_error(evaluator: QueryEvaluator) -> set[str]:
    return {name for name, each in evaluator.engine.standing.items() if each.status == FAILED}


def dispose(address: StoreAddress, query: str, *, app: str | None, yes: bool) -> int:
    """End *query* and forget its state; its stream stays readable.

    One that has not ended has a state to lose: then it is asked, and *Raises* `BadUsage` without consent.
    """

    def act(evaluator: QueryEvaluator) -> str:
        ends = dispose_of(evaluator, query, agree=agree)
        gone = told_gone(let_go_of(evaluator, query))
        anew = "an app that still declares it creates it anew when it starts"
        return f"{query} is disposed of, its stream stays{ends}{gone}; {anew}"

    def agree(status: str, readers: list[str]) -> None:
        check_consent(query, status, "a disposal", ending_for(readers), yes=yes)

    return change(address, [query], app, act, may_be_left=query.__eq__)


def dispose_of(evaluator: QueryEvaluator, query: str, *, agree: Callable[[str, list[str]], None]) -> str:
    """Dispose of *query*; return for whom it has ended, and who has failed with that, as the end of a sentence.

    *agree* has its status and who reads it, and raises if nobody agrees.
    """
    engine = evaluator.engine
    readers = readers_of(engine, query)
    agree((engine.standing.get(query) or engine.suspended[query]).status, readers)
    before = ended_with_an_error(evaluator)
    evaluator.dispose(query)
    failed = sorted(ended_with_an_error(evaluator) - before - {query})
    ends = f"; it has ended for those that read it: {name_some(readers)}" if readers else ""
    return f"{ends}; failed with that: {name_some(failed)}" if failed else ends


def let_go_of(evaluator: QueryEvaluator, query: str) -> dict[str, str]:
    """Let the sinks go of the streams of *query* that are not declared any more; return what each was, by its name."""
    gone = dict[str, str]()
    for stream, holder, known in evaluator.outlets.undeclared():
        if query_of(stream) == query:
            evaluator.holders.release(stream, holder)
            evaluator.reporter.is_over("holder", f"{stream}/{holder}")
            gone[f"{stream}/{holder}"] = f"{known}, which has what is below id {known.position:,}"
    return gone


def told_gone(gone: Mapping[str, str]) -> str:
    """Say which sinks were let go, as the end of a sentence."""
    return f"; not kept any more for what is not declared: {name_some([*gone.values()])}" if gone else ""


def ending_for(readers: Sequence[str]) -> str:
    """Say for whom a disposal is an end, as a part of a sentence."""
    what = f", and its stream ends for those that read it: {name_some(readers)} (with what waits in those that end)"
    return what if readers else ""


def check_consent(query: str, status: str, what: str, ends: str, *, yes: bool) -> None:
    """*Raises* `BadUsage` if *query* has a state to lose, and nobody agrees to that; *ends* says what ends with it."""
    if status in (FAILED, COMPLETED) or yes:
        return
    if not agreed(f"{query!r} is {status}, with a state that {what} drops{ends}; drop it?"):
        raise BadUsage(f"{query!r} is {status}, with a state that {what} drops{ends}; say --yes to drop it")


def change(
    address: StoreAddress,
    queries: Sequence[str],
    app: str | None,
    act: Callable[[QueryEvaluator], str],
    *,
    may_be_left: Callable[[str], bool],
) -> int:
    with opened(address, app, may_be_left) as evaluator:
        engine = evaluator.engine
        for query in queries:
            if query not in engine.standing and query not in engine.suspended:
                raise BadUsage(f"the store has no query {query!r}; {there_are(engine.standing, query)}")
            owner = query_of(query)
            if owner != query and (owner in engine.standing or owner in engine.suspended):
                raise BadUsage(f"{query!r} is a stream beside {owner!r} and no query: name {owner!r}")
        done = act(evaluator)
        evaluator.checkpoint(full=True)
        taken_over = list(taken_over_told(engine))
    say_all([done, *taken_over])
    return 0


@contextmanager
def opened(address: StoreAddress, where: str | None, may_be_left: Callable[[str], bool]) -> Iterator[QueryEvaluator]:
    """Open the store at *address* with nothing but its sources; suspend only queries that *may be left*.

    *Raises* `BadUsage`, `StoreOwned`, and `CheckpointRefused` where others would be suspended.
    """
    reach(str(Path.cwd()))
    app = App() if where is None else load_for_store(where)
    earlier = left_open(address)
    with (
        log_nothing(),
        address.own() as store,
        closing(only_turns(app, store)) as evaluator,
    ):
        evaluator.reporter.hand_on(earlier)
        evaluator.engine.suspended.may_be_left = may_be_left
        try:
            evaluator.start()
            evaluator.declared.update(
                {name: (each.query, each.policy, each.limits, each.clock) for name, each in app.queries.items()}
            )
        except (ImportError, AttributeError) as error:
            raise BadUsage(f"the store needs code that is not found here ({error}); {GIVE}") from error
        except CheckpointRefused as error:
            if "__main__" in error.message and not is_loaded():
                raise BadUsage(f"{error.message}; if the classes are a script's, give --app and the script") from error
            raise
        except SourceFailed as error:
            if where is not None and not is_loaded():
                raise
            remedy = "start the script, and stop it in order" if is_loaded() else GIVE
            raise BadUsage(f"the store was not stopped in order ({error.message}); {remedy}") from error
        yield evaluator


def only_turns(app: App, store: Store, *, strict: bool | None = None) -> QueryEvaluator:
    """Build what takes the turns of *app*, however much its sinks still lack; *strict* overrules the app."""
    overruling: Options = {"buffer_events_max": NEVER_FULL}
    if strict is not None:
        overruling["strict"] = strict
    evaluator = app.bare(store, **overruling)
    evaluator.reporter.loop.told_hang = partial(tell_hang, evaluator, [])
    return evaluator


def tell_hang(evaluator: QueryEvaluator, told: list[str]) -> None:
    """Say that the start of *evaluator* does not return, unless that is *told*: the log of a command is silent."""
    stalls = [each.message for each in evaluator.incidents.open() if each.kind == "stall"]
    if stalls and not told:
        complain(f"{stalls[0]}; Ctrl-C ends it")
    told[:] = stalls
