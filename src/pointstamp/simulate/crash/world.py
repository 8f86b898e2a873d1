"""A simulated query with driver, members, journal, snapshots and sink, from one seed.

Members, coordinator, journal and ledger are the production code, as in ``pointstamp.simulate.world`` the
workers are. At any step members, the driver or all may die: what they had in memory is gone, what they were
writing is done, cut off between two operations or in the middle of one, or not done, and their messages
arrive or not. Storage may fail or not answer, and the power may fail. Processes that survive continue for a
while beside the generation that replaces them: a driver that does not know that it was replaced, also one
that slept between two operations of its own; members whose driver is dead. Recovery itself may crash. The
number of crashes is bounded, so that the world comes to an end.

A recovery is ``begin_generation``, the same that a supervisor calls. Which crash happens when is said by
``pointstamp.simulate.crash.crashes``.
"""

import gc
import logging
import warnings
from collections.abc import Callable
from typing import Final, TypeAlias

from pointstamp.errors import PointstampWarning
from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.simulate.crash.crashes import crash
from pointstamp.simulate.crash.crew import Life, MemberPlace
from pointstamp.simulate.crash.drivers import Drivers, FoundError
from pointstamp.simulate.crash.setting import CrashRun
from pointstamp.simulate.world import Ended
from pointstamp.worker.events import Event

_log = logging.getLogger("pointstamp.query")

_FINDS_ONE_IN: Final = 6
_SAYS_ONE_IN: Final = 12
_END_OF_TIME: Final = 2**62
# Nothing takes as long as this: after it nothing will happen any more.
_QUIET_TICKS_MAX: Final = 700

Act: TypeAlias = "Callable[[Life, MemberPlace | None], None]"


class CrashWorld(Drivers):
    """One world; ``run`` lets it happen, once."""

    def run(self) -> CrashRun:
        """Let it happen until all is published, something fails, or the limit is reached."""
        result = self.result
        # A capability in a cycle of references would be released whenever the collector comes by.
        collects, was_disabled = gc.isenabled(), _log.disabled
        said: list[warnings.WarningMessage] = []
        gc.disable()
        _log.disabled = True  # what a recovery has to say is in what happened
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always", PointstampWarning)
                self._go_on()
        except (Exception, FoundError) as error:
            found = error.found if isinstance(error, FoundError) else error
            result.ended, result.error = Ended.FAILED, found
            result.reason = f"{type(found).__name__}: {found}"
        finally:
            words = dict.fromkeys(str(each.message) for each in said)
            result.undeclared = tuple(each for each in words if "declares no state" in each)
            _log.disabled = was_disabled
            if collects:
                gc.enable()
            for life in self.lives:
                life.die()
        result.choices = [*self.choices.made, *self.further.made]
        through = self.sink.published_through()
        result.published_through = -1 if through is None else through
        if result.ended is Ended.COMPLETE:
            closed = _END_OF_TIME if self.features.closes else 0
            result.complete_to = max([closed, *(tick.complete_to for tick in result.ticks.values())])
        result.events = [each for _, each in result.happened if isinstance(each, Event)]
        result.fed = self.feed.items_of([result.ticks[number] for number in sorted(result.ticks)])
        return result

    # What happens next.

    def _go_on(self, until: int | None = None) -> None:
        """Let things happen, to the end of the world or up to a moment."""
        result = self.result
        while result.steps < self._steps_max:
            now = self.clock.ticks
            if until is not None and now >= until:
                return
            self._end_the_replaced()
            if self._has_ended():
                return
            if self._may_crash() and self.choices.happens(self.makeup.crashes_one_in):
                self.crashes_left -= 1
                result.crashes += 1
                crash(self)
            self._do_something(now)
            self.clock.ticks += 1
        result.reason = f"it had not come to an end after {result.steps} steps"

    def _do_something(self, now: int) -> None:
        self._quiet_ticks += 1
        if self.recover_at is not None and now >= self.recover_at:
            self._take_over()
            self._quiet_ticks = 0
            return
        ready = self._ready(now)
        unfound = self.feed.unfound(is_last_due=self.user.is_answered(), is_quiet=not ready)
        if self.further.happens(self.features.savepoints_one_in):
            self.user.take_savepoint()
        may_say = self.user.unsaid()
        if may_say and ((not ready and not unfound) or self.further.happens(_SAYS_ONE_IN)):
            self.user.say(may_say[self.further.choose(len(may_say))])
        elif unfound and (not ready or self.choices.happens(_FINDS_ONE_IN)):
            unfound[self.choices.choose(len(unfound))].found += 1
            self._quiet_ticks = 0
        elif ready:
            self._turn += 1
            act, life, place = ready[(self._turn + self.choices.choose(len(ready))) % len(ready)]
            self.result.steps += 1
            act(life, place)
            self._quiet_ticks = 0

    def _ready(self, now: int) -> list[tuple[Act, Life, MemberPlace | None]]:
        """Everything that some process could do now."""
        ready: list[tuple[Act, Life, MemberPlace | None]] = []
        for life in self.lives:
            if life.driver_is_alive and not life.is_asleep and self._has_news(life):
                ready.append((self._drive, life, None))
            network = life.crew.network
            for place in life.crew.places:
                if not place.is_alive:
                    continue
                if place.scribe.jobs and now % self.makeup.scribe_pace == 0:
                    ready.append((self._write, life, place))
                has_left = place.member is not None and place.member.has_left
                has_news = (
                    not place.is_idle
                    or place.orders.has_arrived
                    or bool(place.scribe.results)
                    or network.has_arrived(WorkerIndex(place.number))
                )
                if has_news and not has_left and now % place.pace == 0:
                    ready.append((self._step, life, place))
        return ready

    def _has_news(self, life: Life) -> bool:
        if not life.is_idle or life.calls or any(place.reports.has_arrived for place in life.crew.places):
            return True
        if any(watch.has_news for watch in life.watches.values()):
            return True
        return life.session.coordinator.seconds_until_due(self.clock.now_seconds()) == 0

    def _may_crash(self) -> bool:
        return self.crashes_left > 0 and (self.newest is None or not self.newest.is_finished)

    def _has_ended(self) -> bool:
        newest = self.newest
        if newest is not None and newest.is_finished and self.recover_at is None:
            if any(life is not newest and life.is_alive for life in self.lives):
                return False
            self.result.ended = Ended.COMPLETE
            return True
        if self._quiet_ticks > _QUIET_TICKS_MAX:
            self.result.ended = Ended.STUCK
            self.result.reason = "nothing is left to do, and not everything is published"
            return True
        return False

    # Acting.

    def _step(self, life: Life, place: MemberPlace | None) -> None:
        assert place is not None
        life.crew.step(place)

    def _write(self, life: Life, place: MemberPlace | None) -> None:
        assert place is not None
        place.scribe.work()
