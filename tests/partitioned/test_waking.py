"""S15 and L2: no wake-up is lost, and a round comes at the latest after the period."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from hosting.partitioned.waking import Waker, Waking

WAIT_S = 60.0
STEPS = st.lists(st.sampled_from(("wake", "pass", "round", "at")), max_size=30)


@given(STEPS)
def test_a_round_begins_after_the_last_wake_up_and_not_before_the_gap(steps: list[str]) -> None:
    """S15, L2: whatever is called when, what was said before a round is served by it, and rounds keep their gap."""
    waking, now, began, woken = Waking(period_s=20.0, gap_s=1.0), 100.0, float("-inf"), True
    for step in [*steps, "pass", "round"]:
        if step == "wake":
            waking.wake()
            woken = True
        elif step == "pass":
            now += 0.7
        elif step == "at":
            waking.at(now + 5.0)
        elif waking.due() <= now:
            assert now >= began + 1.0
            waking.begin(now)
            began, woken = now, False
        assert waking.due() <= max(now, began + (1.0 if woken else 20.0))
        assert not woken or waking.due() <= max(now, began + 1.0)


@given(st.lists(st.tuples(st.floats(0.0, 2.0), st.floats(0.0, 5.0), st.booleans()), max_size=30))
def test_rounds_never_take_more_than_a_fifth_of_a_processor(rounds: list[tuple[float, float, bool]]) -> None:
    """However often they are asked for, at once or not, and whatever one costs, L2 holds and so does the rest."""
    waking, now, cost, spent = Waking(period_s=20.0, gap_s=0.0), 0.0, 0.0, 0.0
    for cost, waited, at_once in rounds:
        waking.begin(now)
        waking.wake()
        now, spent = now + cost, spent + cost
        waking.rest(now, cost)
        assert now <= waking.due(at_once=at_once) <= now + 4.0 * cost + 1e-9
        now = max(now + waited, waking.due(at_once=at_once))
    assert spent <= now / 5.0 + 1e-6


def test_of_many_threads_none_is_swallowed() -> None:
    """S15: after each wake-up, whenever it came, a whole round begins; a thousand of them need not be so many."""
    waker = Waker(gap_s=0.0, period_s=WAIT_S)
    said, served = [0], [0]
    done = threading.Condition()

    def serve() -> None:
        while waker.wait():
            with done:
                served[0] = said[0]
                done.notify_all()

    def say() -> None:
        for _ in range(250):
            with done:
                said[0] += 1
            waker.wake()

    loop = threading.Thread(target=serve, daemon=True)
    loop.start()
    speakers = [threading.Thread(target=say, daemon=True) for _ in range(4)]
    for thread in speakers:
        thread.start()
    for thread in speakers:
        thread.join(WAIT_S)
    with done:
        assert done.wait_for(lambda: served[0] == 1_000, WAIT_S)
    waker.stop()
    loop.join(WAIT_S)
    assert not loop.is_alive()


def test_at_once_does_not_keep_the_gap_and_later_is_not_lost() -> None:
    """What was just given back is taken at once; a round asked for soon comes although the period is long."""
    waker = Waker(gap_s=1_000.0, period_s=1_000.0)
    assert waker.wait()
    waker.wake(at_once=True)
    assert waker.wait()
    soon = Waker(gap_s=0.0, period_s=1_000.0)
    assert soon.wait()
    soon.later(0.0)
    assert soon.wait()
    soon.stop()
    assert not soon.wait()
