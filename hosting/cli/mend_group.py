"""`reliable-rx restart` and `dispose` of a query in a group: in each partition that has it, while no node runs.

The store of a partition is opened with that partition's own sources, at the epoch that it was let go at: the next
owner's is greater, so a node that is started meanwhile fences us, and nothing is lost. A query that the app declares no
more is disposed of, too: it is looked for in all partitions. Rejected: a request that a running node obeys (it would
have to be kept and answered per partition; an edited query of a newer app runs again on running nodes without that).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple

from checkpoint.store import Store
from hosting.app import App, made
from hosting.cli.groups import Found, found_group
from hosting.cli.loading import load_app
from hosting.cli.mend import (
    NEVER_FULL,
    check_consent,
    dispose_of,
    ended_with_an_error,
    ending_for,
    let_go_of,
    told_gone,
    told_left_out,
)
from hosting.cli.terminal import complain, say
from hosting.cli.wording import BadUsage, log_nothing, plural
from hosting.edges.sink_positions import is_sink
from hosting.edges.start_positions import Start
from hosting.engine.cycles import there_are
from hosting.engine.editing import taken_over_told
from hosting.engine.event_time.validation import selects, sources_of
from hosting.engine.hosted_query import COMPLETED, FAILED, RUNNING, Standing
from hosting.evaluator.evaluator import QueryEvaluator
from hosting.partitioned.failures import worst_of
from hosting.partitioned.keys import AND, WHOLE
from hosting.partitioned.places import Place
from hosting.partitioned.sections import Section, sections_of
from hosting.partitioned.tending import bury, find_dead, forget_holder, tell
from hosting.partitioned.words import Lease, MemberId, Partition, Status
from hosting.reports.causes import name_some, readers_of
from hosting.reports.failure_summary import own
from reliable_rx.errors import ReliableRxError, StoreOwned, described
from reliable_rx.names import query_of

WHO = MemberId("command")
SectionOf = Callable[[str], Section | None]
Act = Callable[[Section, QueryEvaluator], str]
NOT_BEGUN = "it has not begun in it: the next node that starts has it begin"


def restart(where: str, queries: Sequence[str], *, group: str | None, app: str, yes: bool) -> int:
    """Run *queries* again where they have failed, and where they have ended and more has come: without their states.

    All or none in a partition. *Raises* `BadUsage`.
    """
    loaded, known, ended, restarted = load_app(app), set[str](), set[str](), Counter[str]()

    def act(section: Section, evaluator: QueryEvaluator) -> str:
        standing = evaluator.engine.standing
        known.update(standing)
        ended.update(
            name for name in standing.keys() & {*queries} if section.whole and standing[name].status == COMPLETED
        )
        said = restart_in(section, evaluator, queries, yes=yes)
        restarted.update(said.keys())
        told = [told if len(queries) == 1 else f"{name}: {told}" for name, told in said.items()]
        return "; ".join([*told, *taken_over_told(evaluator.engine)] if told else [])

    with found_group(where, group) as found, log_nothing():
        check_stopped(found)
        done = change_each(found, having(loaded, queries), queries, act, may_be_left=lambda name: False)
    for query in queries:
        if query not in known | loaded.queries.keys() and not (done.mended or done.left_out):
            there = there_are(sorted(known), query)
            raise BadUsage(f"{app} declares no query {query!r}, and no partition has one; {there}")
    ended -= {*queries} if done.mended or done.left_out else set[str]()
    return done.told("; ".join(told_restart(query, restarted[query], has_ended=query in ended) for query in queries))


def told_restart(query: str, count: int, *, has_ended: bool) -> str:
    """Say in how many partitions *query* was restarted."""
    if count:
        return f"{query} was restarted in {plural(count, 'partition')}"
    nothing_new = ", and of what it reads there is nothing that has come behind its end" if has_ended else ""
    return f"{query} has failed in no partition{nothing_new}"


def dispose(where: str, query: str, *, group: str | None, app: str, yes: bool) -> int:
    """End *query* in all partitions, and forget its state. *Raises* `BadUsage` without consent, or if none has it."""
    loaded, known, subjects = load_app(app), set[str](), dict[str, list[str]]()

    def act(section: Section, evaluator: QueryEvaluator) -> str:
        engine = evaluator.engine
        there = engine.standing.get(query) or engine.suspended.get(query)
        known.update(engine.standing)
        if there is None:
            return ""
        status = there.status
        ends = dispose_of(evaluator, query, agree=lambda status, readers: None)
        gone = let_go_of(evaluator, query)
        evaluator.checkpoint(full=True)
        subjects[evaluator.incidents.place] = list(gone)
        done = f"{query} was {status}, and is disposed of{ends}{told_gone(gone)}"
        return "; ".join([done, *taken_over_told(engine)])

    with found_group(where, group) as found, log_nothing():
        check_stopped(found)
        if not yes:
            ask_for_all(found, having(loaded, [query]), query)
        done = change_each(found, having(loaded, [query]), [query], act, may_be_left=query.__eq__)
        for partition in found.document().holds:
            for subject in subjects.get(str(partition), ()):
                forget_holder(found.opened.registry, found.name, partition, subject)
    count = done.changed + done.mended
    if not count and not done.left_out:
        section = next((each.name for each in sections_of(loaded) if query in each.queries), None)
        if section is not None:
            raise BadUsage(
                f"no partition has a query {query!r} in section {section!r}, where {app} hosts it; to dispose of it in "
                f"another section, give an app that does not declare it"
            )
        raise BadUsage(f"no partition has a query {query!r}; {there_are(sorted(known), query)}")
    if not count:
        return done.told(f"no other partition has a query {query!r}")
    anew = "; nodes whose app still declares it create it anew" if query in loaded.queries else ""
    return done.told(f"{query} was disposed of in {plural(count, 'partition')}, and its streams stay{anew}")


def ask_for_all(found: Found, section_of: SectionOf, query: str) -> None:
    """*Raises* `BadUsage` if *query* has a state to lose in some partition and nobody agrees: before any change."""
    alive, readers = list[str](), set[str]()
    for partition in found.document().holds:
        with suppress(ReliableRxError), opened(found, partition, section_of, query.__eq__) as there:
            if there is None:
                continue
            engine = there.evaluator.engine
            hosted = engine.standing.get(query) or engine.suspended.get(query)
            if hosted is not None and hosted.status not in (FAILED, COMPLETED):
                alive.append(f"{hosted.status} in {partition}")
                readers.update(readers_of(engine, query))
    if alive:
        check_consent(query, name_some(sorted(alive)), "a disposal", ending_for(sorted(readers)), yes=False)


def having(app: App, queries: Collection[str]) -> SectionOf:
    """Return what gives the section of a name that may have some of *queries*: any, if *app* declares not all."""
    sections = {each.name: each for each in sections_of(app)}
    if app.queries.keys() >= {*queries}:
        return {name: each for name, each in sections.items() if not each.queries.keys().isdisjoint(queries)}.get
    return lambda name: sections.get(name) or undeclared(app, name)


def undeclared(app: App, name: str) -> Section:
    """Return the section *name* with the sources of *app*, which declares no query over them any more."""
    names = app.sources if name == WHOLE else name.split(AND)
    sources = {each: made(app.sources[each], "partitions") for each in names if each in app.sources}
    return Section(name, sources, {}, (), app.options)


class There(NamedTuple):
    """A partition that is opened by a command."""

    section: Section
    place: Place
    evaluator: QueryEvaluator


class Lent(NamedTuple):
    """The store of a partition, for a command."""

    place: Place
    store: Store


@dataclass(slots=True)
class Done:
    """In how many partitions a command has changed something, *mended* what the group knew, or could do nothing."""

    changed: int = 0
    mended: int = 0
    left_out: int = 0

    def told(self, what: str) -> int:
        """Say *what* was done, and where it was not; return the exit code."""
        say(what)
        if self.left_out:
            complain(f"not done in {plural(self.left_out, 'partition')}: mend that, and call this again")
        return 1 if self.left_out else 0


def change_each(
    found: Found, section_of: SectionOf, queries: Sequence[str], act: Act, *, may_be_left: Callable[[str], bool]
) -> Done:
    """Do *act* about *queries* in each partition that has a store, say what it has done, and have the group know of it.

    One that cannot be opened is named, and the others have their turn.
    """
    done = Done()
    for partition in sorted(found.document().holds):
        try:
            with opened(found, partition, section_of, may_be_left) as there:
                if there is None:
                    continue
                said = act(there.section, there.evaluator)
                mended = tell_group(found, there, queries, has_changed=bool(said))
        except ReliableRxError as error:
            complain(f"{partition}: {error.message}")
            done.left_out += 1
            continue
        if said:
            say(f"{partition}: {said}")
            done.changed += 1
        elif mended:
            say(f"{partition}: {mended}, which the group knows now")
            done.mended += 1
    return done


@contextmanager
def opened(
    found: Found, partition: Partition, section_of: SectionOf, may_be_left: Callable[[str], bool]
) -> Iterator[There | None]:
    """Start on the store of *partition* what takes its turns; None if nothing has begun in it."""
    section = section_of(partition.source)
    if section is None:
        yield None
        return
    with lent(found, partition) as lease:
        if lease is None:
            yield None
            return
        place, store = lease
        starts = starts_at(found, section, place) if section.whole else {}
        bare = section.bare(place, store, starts=starts, buffer_events_max=NEVER_FULL, background=False)
        with closing(bare) as evaluator:
            evaluator.reporter.hand_on([])
            evaluator.engine.suspended.may_be_left = may_be_left
            evaluator.start()
            yield There(section, place, evaluator)


@contextmanager
def lent(found: Found, partition: Partition) -> Iterator[Lent | None]:
    """Open the store of *partition* at the epoch that it was let go at; None if nothing has begun in it."""
    hold = found.document().holds.get(partition)
    if hold is None or not found.opened.stores.newest(partition):
        yield None
        return
    place = Place(found.name, Lease(partition, WHO, hold.epoch))
    with closing(found.opened.stores.open(place.lease)) as store:
        if not store.journal.last_turn and store.recover() is None:
            yield None
            return
        yield Lent(place, store)


def starts_at(found: Found, section: Section, place: Place) -> dict[str, Start]:
    """Return where partitions begin that have come since a node was there. *Raises* `OffsetsMoved`."""
    keys = section.keys(place)
    return section.starts(keys, found.opened.offsets.fetch(found.name, keys))


def check_stopped(found: Found) -> None:
    """*Raises* `StoreOwned` if a member of the group is alive, or was a moment ago."""
    document = found.document()
    dead = find_dead(found.opened.registry, found.name, pause=time.sleep) if document.members else {}
    if dead:
        bury(found.opened.registry, found.name, dead)
    elif document.members:
        names = ", ".join(sorted(document.members)[:5])
        raise StoreOwned(
            f"the group {found.name!r} runs: {names}; stop its nodes first, or have them run an edited query",
            owner=names,
        )


def restart_in(section: Section, evaluator: QueryEvaluator, queries: Sequence[str], *, yes: bool) -> dict[str, str]:
    """Restart *queries* in a partition of *section* where they have failed, or more has come; return what was done."""
    standing = evaluator.engine.standing
    is_missed = bool(missed_in(section, evaluator))
    said = {each: NOT_BEGUN for each in queries if is_missed and each in section.queries and each not in standing}
    names = to_restart(section, evaluator, [each for each in queries if each in standing])
    if not names:
        return said
    before = {name: was(standing[name]) for name in names}
    for name in names:
        check_consent(name, standing[name].status, "a restart", "", yes=yes)
    for name in names & section.queries.keys():
        each = section.queries[name]
        evaluator.declared[name] = (each.query, each.policy, each.limits, each.clock)
    waited = evaluator.intake.late.sources
    evaluator.restart(*names)
    evaluator.checkpoint(full=True)
    said |= {name: f"{before[name]}; {is_now(evaluator, name)}" for name in names}
    for left in told_left_out(evaluator, waited - evaluator.intake.late.sources):
        said[[*names][-1]] += f"; {left}"
    return said


def is_now(evaluator: QueryEvaluator, name: str) -> str:
    """Say how a query is behind its restart."""
    after = evaluator.query(name)
    if after.status == COMPLETED:
        return "it has completed at once, since the partition has ended"
    if after.status == FAILED:
        return f"it has failed again at once: {after.error}"
    return f"it runs again from id {after.emitted:,} on"


def to_restart(section: Section, evaluator: QueryEvaluator, names: Sequence[str]) -> dict[str, None]:
    """Return which of *names* have failed, or miss some of what is to be read once those before them run again."""
    standing = evaluator.engine.standing
    found = dict.fromkeys(each for each in names if standing[each].status == FAILED)
    while new := [each for each in names if each not in found and misses_some(section, evaluator, each, found)]:
        found |= dict.fromkeys(new)
    return found


def was(standing: Standing) -> str:
    """Say how a query was before it was restarted."""
    if standing.status != FAILED:
        return "it had completed" if standing.status == COMPLETED else "it ran on behind an end"
    return f"it had failed with {described(standing.error) if standing.error is not None else None}"


def misses_some(section: Section, evaluator: QueryEvaluator, name: str, others: Collection[str]) -> bool:
    """Whether a query over all partitions does not read what is still to be read, where *others* are run again.

    One that runs does, unless that has come behind an end that it was told of.
    """
    late, standing = evaluator.intake.late, evaluator.engine.standing
    found, plan = missed_in(section, evaluator), standing[name].plan
    if standing[name].status == RUNNING:
        found &= late.sources
    elif section.whole:
        found |= {*others, *(each for each, there in standing.items() if there.status == RUNNING)}
    is_any = bool(found) and any(map(selects, plan.walk()))
    return is_any or not found.isdisjoint(map(query_of, sources_of(plan)))


def missed_in(section: Section, evaluator: QueryEvaluator) -> set[str]:
    """Name the sources over all partitions of which some are still to be read."""
    intake = evaluator.intake
    left = {source for (source, _), each in intake.partitions.items() if section.whole and not each.ended}
    return {each for each in left if intake.late.end_of(each) in (None, (None,))}


def tell_group(found: Found, there: There, queries: Sequence[str], *, has_changed: bool) -> str:
    """Have the group know what fails in the queries of a partition; return what else it had not known of *queries*.

    One that was read to its end is opened once more if something has changed, also if an earlier call was cut off
    before this: then a sink lacks something, a query that is declared is not there, or there is more to be read.
    """
    section, evaluator = there.section, there.evaluator
    failing = worst_of(own(evaluator.incidents.open()))
    is_short = not section.queries.keys() <= evaluator.engine.standing.keys()
    lacks = has_changed or lacks_some(section, evaluator) or is_short
    goes_on = not evaluator.intake.all_ended or (is_short and bool(missed_in(section, evaluator)))

    def owes(is_news: bool) -> bool:
        return bool(section.sinks) and (is_news or lacks)

    was_over = found.document().holds[there.place.partition].status is Status.TERMINATED
    known = tell(found.opened.registry, found.name, there.place.partition, failing, owes=owes, goes_on=goes_on)
    failed = ended_with_an_error(evaluator)
    for query in queries:
        if known is not None and known.message.startswith(f"query {query!r}: ") and query not in failed:
            return f"{query} does not fail any more"
    return "there is more to be read in it" if goes_on and was_over else ""


def lacks_some(section: Section, evaluator: QueryEvaluator) -> bool:
    """Whether a sink of *section* had not got all of its stream when it was last there."""
    streams = {each.stream for each in section.sinks} & evaluator.holders.held.keys()
    held = [evaluator.holders.held[name] for name in streams]
    return any(is_sink(each) and at < stream.next_id for stream in held for each, at in stream.holders.items())
