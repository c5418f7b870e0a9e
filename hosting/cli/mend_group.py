"""`reliable-rx restart` and `dispose` of a query in a group: in each partition that has it, while no node runs.

The store of a partition is opened with that partition's own sources, at the epoch that it was let go at: the next
owner's is greater, so a node that is started meanwhile fences us, and nothing is lost. A query that the app declares no
more is disposed of, too: it is looked for in all partitions. Rejected: a request that a running node obeys (it would
have to be kept and answered per partition; an edited query of a newer app runs again on running nodes without that).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

from hosting.app import App, made
from hosting.cli.groups import Found, found_group
from hosting.cli.loading import load_app
from hosting.cli.mend import NEVER_FULL, check_consent
from hosting.cli.terminal import say
from hosting.cli.wording import BadUsage, log_nothing, plural
from hosting.cycles import there_are
from hosting.failure_summary import own
from hosting.partitioned.failures import worst_of
from hosting.partitioned.keys import WHOLE
from hosting.partitioned.places import Place
from hosting.partitioned.sections import Section, sections_of
from hosting.partitioned.tending import bury, find_dead, heal, owe
from hosting.partitioned.words import Lease, MemberId
from hosting.standing import COMPLETED, FAILED
from hosting.starting import Start
from reliable_rx.errors import described

if TYPE_CHECKING:
    from hosting.evaluator import QueryEvaluator

WHO = MemberId("command")
Act = Callable[[Found, Section, Place, "QueryEvaluator"], str]


def restart(where: str, query: str, *, group: str | None, app: str, yes: bool) -> int:
    """Run *query* again in all partitions where it has failed: without its state. *Raises* `BadUsage`."""
    loaded, known = load_app(app), set[str]()

    def act(found: Found, section: Section, place: Place, evaluator: QueryEvaluator) -> str:
        known.update(evaluator.engine.standing)
        return restart_in(found, section, place, evaluator, query=query)

    with found_group(where, group) as found, log_nothing():
        check_stopped(found)
        again = in_each(found, having(loaded, query), act, may_be_left=lambda name: False)
    if query not in known and query not in loaded.queries:
        there = there_are(sorted(known), query)
        raise BadUsage(f"{app} declares no query {query!r}, and no partition has one; {there}")
    say(f"{query} was restarted in {plural(again, 'partition')}" if again else f"{query} has failed in no partition")
    return 0


def dispose(where: str, query: str, *, group: str | None, app: str, yes: bool) -> int:
    """End *query* in all partitions, and forget its state. *Raises* `BadUsage` without consent, or if none has it."""
    loaded, agreed, known = load_app(app), list[str](), set[str]()

    def act(found: Found, section: Section, place: Place, evaluator: QueryEvaluator) -> str:
        engine = evaluator.engine
        there = engine.standing.get(query) or engine.suspended.get(query)
        known.update(engine.standing)
        if there is None:
            return ""
        status = there.status
        if not agreed and status not in (FAILED, COMPLETED):
            check_consent(query, status, "a disposal", yes=yes)
            agreed.append(query)
        evaluator.dispose(query)
        evaluator.checkpoint(full=True)
        told(found, section, place, query, evaluator)
        return f"{query} was {status}, and is disposed of"

    with found_group(where, group) as found, log_nothing():
        check_stopped(found)
        done = in_each(found, having(loaded, query), act, may_be_left=query.__eq__)
    if not done:
        raise BadUsage(f"no partition has a query {query!r}; {there_are(sorted(known), query)}")
    anew = "; nodes whose app still declares it create it anew" if query in loaded.queries else ""
    say(f"{query} was disposed of in {plural(done, 'partition')}, and its streams stay{anew}")
    return 0


def having(app: App, query: str) -> Callable[[str], Section | None]:
    """Return what gives the section of a name that may have *query*: any, of one that *app* does not declare."""
    sections = {each.name: each for each in sections_of(app)}
    if query in app.queries:
        return {name: each for name, each in sections.items() if query in each.queries}.get
    return lambda name: sections.get(name) or undeclared(app, name)


def undeclared(app: App, name: str) -> Section:
    """Return the section *name* with the sources of *app*, which declares no query over them any more."""
    names = app.sources if name == WHOLE else [name] if name in app.sources else name.split("+")
    sources = {each: made(app.sources[each], "partitions") for each in names if each in app.sources}
    return Section(name, sources, {}, (), app.options)


def in_each(
    found: Found, section_of: Callable[[str], Section | None], act: Act, *, may_be_left: Callable[[str], bool]
) -> int:
    """Do *act* in each partition that has a store, and say what it has done; return in how many it did something."""
    done = 0
    for partition, hold in sorted(found.document().holds.items()):
        section = section_of(partition.source)
        if section is None or not found.opened.stores.newest(partition):
            continue
        place = Place(found.name, Lease(partition, WHO, hold.epoch))
        with closing(found.opened.stores.open(place.lease)) as store:
            if not store.journal.last_turn and store.recover() is None:
                continue  # nothing has begun in it
            starts = starts_at(found, section, place) if section.whole else {}
            bare = section.bare(place, store, starts=starts, buffer_events_max=NEVER_FULL, background=False)
            with closing(bare) as evaluator:
                evaluator.reporter.hand_on([])
                evaluator.engine.suspended.may_be_left = may_be_left
                evaluator.start()
                said = act(found, section, place, evaluator)
        if said:
            say(f"{partition}: {said}")
            done += 1
    return done


def starts_at(found: Found, section: Section, place: Place) -> dict[str, Start]:
    """Return where partitions begin that have come since a node was there. *Raises* `OffsetsMoved`."""
    keys = section.keys(place)
    return section.starts(keys, found.opened.offsets.fetch(found.name, keys))


def check_stopped(found: Found) -> None:
    """*Raises* `BadUsage` if a member of the group is alive, or was a moment ago."""
    document = found.document()
    dead = find_dead(found.opened.registry, found.name, pause=time.sleep) if document.members else {}
    if dead:
        bury(found.opened.registry, found.name, dead)
    elif document.members:
        names = ", ".join(sorted(document.members)[:5])
        raise BadUsage(
            f"the group {found.name!r} runs: {names}; stop its nodes first, or have them run an edited query"
        )


def restart_in(found: Found, section: Section, place: Place, evaluator: QueryEvaluator, *, query: str) -> str:
    """Restart *query* at *place* if it has failed there, and have the group forget that; return what was done."""
    standing = evaluator.engine.standing.get(query)
    if standing is None:
        return ""
    if standing.status != FAILED:  # it was mended without the group being told
        if forget_failure(found, place, query, evaluator) and section.sinks:
            owe(found.opened.registry, found.name, place.partition)
        return ""
    each = section.queries.get(query)
    if each is not None:
        evaluator.declared[query] = (each.query, each.policy, each.limits, each.clock)
    before = described(standing.error) if standing.error is not None else None
    evaluator.restart(query)
    evaluator.checkpoint(full=True)
    told(found, section, place, query, evaluator)
    after = evaluator.query(query)
    if after.status == COMPLETED:
        return f"it had failed with {before}; it has completed at once, since the partition has ended"
    if after.status == FAILED:
        return f"it had failed with {before}; it has failed again at once: {after.error}"
    return f"it had failed with {before}; it runs again from id {after.emitted:,} on"


def told(found: Found, section: Section, place: Place, query: str, evaluator: QueryEvaluator) -> None:
    """Have the group forget that *query* had failed, and open the partition once more for what its sinks now lack."""
    forget_failure(found, place, query, evaluator)
    if section.sinks:
        owe(found.opened.registry, found.name, place.partition)


def forget_failure(found: Found, place: Place, query: str, evaluator: QueryEvaluator) -> bool:
    """Have the group forget that *query* had failed; return whether it said so."""
    left = worst_of(own(evaluator.incidents.open()))
    return heal(found.opened.registry, found.name, place.partition, f"query {query!r}", left)
