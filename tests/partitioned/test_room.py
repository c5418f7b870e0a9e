"""How many partitions of a node are awake: few for those that stir once, more for those that always do."""

from __future__ import annotations

import pytest

from hosting.partitioned.room import FEW, SOON_S, Room


class One:
    """A partition: it wants in, and sleeps when the room says that it is crowded."""

    def wake(self) -> None: ...


class Crowd:
    """Some partitions in one room, and a clock."""

    def __init__(self, count: int, *, most: int) -> None:
        self.now = 0.0
        self.room = Room(most, clock=lambda: self.now)
        self.all = [One() for _ in range(count)]
        self.woken = 0

    def stir(self, *, pause_s: float = 0.0) -> int:
        """All get something to do, one after the other; return how many had to be woken for that."""
        before = self.woken
        for one in self.all:
            if one in self.room.awake:
                continue
            self.now += pause_s
            while self.room.enter(one):
                idle = next(iter(self.room.awake))
                self.room.leave(idle, early=True)
            self.woken += 1
        return self.woken - before

    def sleep(self) -> None:
        """Nothing comes for long."""
        for one in list(self.room.awake):
            self.room.leave(one)


def test_who_stirs_again_and_again_stays_awake() -> None:
    """A hundred that always have something to do are woken a few times and then not again, and later make room."""
    crowd = Crowd(100, most=256)
    woken = [crowd.stir() for _ in range(8)]
    assert woken[0] == 100 and woken[-1] == 0, woken
    assert len(crowd.room.awake) == 100 <= crowd.room.size
    crowd.sleep()
    assert crowd.room.size == FEW


def test_who_stirs_once_shares_the_room_of_a_few() -> None:
    """A thousand that stir every hundred seconds never have more than a few awake."""
    crowd = Crowd(1_000, most=256)
    for _ in range(4):
        crowd.stir(pause_s=SOON_S / 100)
        assert len(crowd.room.awake) <= crowd.room.size == FEW


def test_there_is_a_limit() -> None:
    """However many stir again and again, no more than the limit are awake while others can make room."""
    crowd = Crowd(50, most=40)
    for _ in range(10):
        crowd.stir()
        assert len(crowd.room.awake) <= crowd.room.size <= 40
    assert crowd.room.size == 40
    with pytest.raises(ValueError, match="at least"):
        Room(0)


def test_who_is_gone_is_forgotten() -> None:
    """A partition that was given back leaves nothing, wherever it was."""
    crowd = Crowd(60, most=40)
    crowd.stir()
    for one in crowd.all:
        crowd.room.leave(one)
    assert not crowd.room.awake and not crowd.room._early and not crowd.room._waiting
