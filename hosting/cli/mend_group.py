"""`reliable-rx restart` of a query in a group: in each partition where it has failed, while no node runs.

The store of a partition is opened at the epoch that it was let go at: the next owner's is greater, so a node that is
started meanwhile fences us, and nothing is lost. Rejected: a request that a running node obeys (it would have to be
kept and answered per partition; an edited query of a newer app runs again on running nodes without that).
"""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

from hosting.cli.groups import Found, found_group
from hosting.cli.loading import load_app
from hosting.cli.mend import NEVER_FULL
from hosting.cli.terminal import say
from hosting.cli.wording import BadUsage, log_nothing, plural
from hosting.cycles import there_are
from hosting.failure_summary import own
from hosting.partitioned.failures import worst_of
from hosting.partitioned.places import Place
from hosting.partitioned.sections import Section, sections_of
from hosting.partitioned.tending import bury, find_dead, heal, owe
from hosting.partitioned.words import Lease, MemberId
from hosting.standing import COMPLETED, FAILED

if TYPE_CHECKING:
    from checkpoint.store import Store
    from hosting.evaluator import QueryEvaluator

WHO = MemberId("restart")


def restart(where: str, query: str, *, group: str | None, app: str) -> int:
    """Run *query* again in all partitions where it has failed: without its state. *Raises* `BadUsage`."""
    sections = {each.name: each for each in sections_of(load_app(app))}
    known = [name for each in sections.values() for name in each.queries]
    if query not in known:
        raise BadUsage(f"{app} declares no query {query!r}; {there_are(known, query)}")
    with found_group(where, group) as found, log_nothing():
        check_stopped(found)
        again = 0
        for partition, hold in sorted(found.document().holds.items()):
            section = sections.get(partition.source)
            if section is None or query not in section.queries or not found.opened.stores.newest(partition):
                continue
            place = Place(found.name, Lease(partition, WHO, hold.epoch))
            with closing(found.opened.stores.open(place.lease)) as store:
                done = restart_in(found, section, place, store, query)
            if done:
                say(f"{partition}: {done}")
                again += 1
    say(f"{query} was restarted in {plural(again, 'partition')}" if again else f"{query} has failed in no partition")
    return 0


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


def restart_in(found: Found, section: Section, place: Place, store: Store, query: str) -> str:
    """Restart *query* at *place* if it has failed there, and have the group forget that; return what was done."""
    with closing(section.bare(place, store, buffer_events_max=NEVER_FULL, background=False)) as evaluator:
        evaluator.reporter.hand_on([])
        evaluator.engine.suspended.may_be_left = lambda name: False
        evaluator.start()
        standing = evaluator.engine.standing.get(query)
        if standing is None:
            return ""
        if standing.status != FAILED:  # it was mended without the group being told
            if forget_failure(found, place, query, evaluator) and section.sinks:
                owe(found.opened.registry, found.name, place.partition)
            return ""
        each = section.queries[query]
        evaluator.declared[query] = (each.query, each.policy, each.limits, each.clock)
        before = evaluator.query(query).error
        evaluator.restart(query)
        evaluator.checkpoint(full=True)
        forget_failure(found, place, query, evaluator)
        if section.sinks:
            owe(found.opened.registry, found.name, place.partition)
        after = evaluator.query(query)
    if after.status == COMPLETED:
        return f"it had failed with {before}; it has completed at once, since the partition has ended"
    if after.status == FAILED:
        return f"it had failed with {before}; it has failed again at once: {after.error}"
    return f"it had failed with {before}; it runs again from id {after.emitted:,} on"


def forget_failure(found: Found, place: Place, query: str, evaluator: QueryEvaluator) -> bool:
    """Have the group forget that *query* had failed; return whether it said so."""
    left = worst_of(own(evaluator.incidents.open()))
    return heal(found.opened.registry, found.name, place.partition, f"query {query!r}", left)
