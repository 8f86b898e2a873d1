"""Several drivers over one storage, with faults and interruptions at every operation: still one history.

One family, a state machine. Only it can find an interleaving of three drivers that nobody thought of: one
that starts while another sums up what a third has slept through, with answers lost on the way. The oracle is
what was acknowledged, and it shares nothing with the journal but the entries.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pointstamp.errors import FencedError, RecoveryError, StorageError
from pointstamp.storage.memory import MemoryStorage
from support.journals import Said, Summed, opened, said_in
from support.storages import Fail, Fault, FaultyStorage, Interrupt, LoseAnswer, Repeat


class Driver:
    """A journal, its own faulty connection, and what it would have to append again."""

    def __init__(self, storage: MemoryStorage) -> None:
        self.storage = FaultyStorage(storage)
        self.journal = opened(self.storage)
        self.retry: Callable[[], None] | None = None
        self.is_busy = False


_plain: st.SearchStrategy[Fault] = st.sampled_from([Fail(), LoseAnswer(), Repeat()])
_acts = st.sampled_from(["append", "summarize"])  # after a start, or the same again after a failure
_who = st.integers(0, 3)
# Between two operations of one driver, another may do several things: append and sum up, for example.
_others = st.tuples(_who, st.lists(_acts, min_size=1, max_size=3))
_plans = st.lists(st.one_of(st.none(), _plain, _others), max_size=6)


class DriversOverOneStorage(RuleBasedStateMachine):
    """The oracle keeps what was acknowledged, by number, and reads the storage afresh after every step."""

    def __init__(self) -> None:
        super().__init__()
        self.storage = MemoryStorage()
        self.drivers = [Driver(self.storage) for _ in range(4)]
        self.next_value = 0
        self.attempted: set[int] = set()
        self.acknowledged: dict[int, int | None] = {}  # number to value; None for what is not said
        self.starts: dict[int, int] = {}  # generation to number

    @rule(who=_who, act=_acts, plan=_plans)
    def act(self, who: int, act: str, plan: list[Fault | tuple[int, list[str]]]) -> None:
        driver = self.drivers[who]
        driver.storage.follow(self._faults(plan))
        self._perform(driver, act)
        driver.storage.follow(())

    @rule(who=_who, act=_acts, operation=st.sampled_from(["create", "list", "delete"]), others=_others)
    def act_overtaken(self, who: int, act: str, operation: str, others: tuple[int, list[str]]) -> None:
        """Another is faster just before an operation that matters, which a random plan seldom meets."""
        driver = self.drivers[who]

        def overtake() -> Iterator[Fault]:
            while driver.storage.done[-1][0] != operation:
                yield None
            yield from self._faults([others])

        driver.storage.follow(overtake())
        self._perform(driver, act)
        driver.storage.follow(())

    @rule(who=_who)
    def crash(self, who: int) -> None:
        self.drivers[who] = Driver(self.storage)

    def _faults(self, plan: list[Any]) -> Iterator[Fault]:
        for each in plan:
            if isinstance(each, tuple):
                who, acts = each
                yield Interrupt(partial(self._perform_all, self.drivers[who], acts))
            else:
                yield each

    def _perform_all(self, driver: Driver, acts: list[str]) -> None:
        for act in acts:
            self._perform(driver, act)

    def _perform(self, driver: Driver, act: str) -> None:
        if driver.is_busy:
            return
        driver.is_busy = True
        try:
            if driver.journal.generation is None:
                self._start(driver)
            elif driver.retry is not None:
                driver.retry()
            elif act == "append":
                self._append(driver)
            else:
                self._summarize(driver)
        except FencedError:
            self._expect_newer(driver)
        except RecoveryError as error:
            raise AssertionError("no storage was damaged") from error
        except StorageError:
            pass
        finally:
            driver.is_busy = False

    def _start(self, driver: Driver) -> None:
        generation = driver.journal.start_generation("alike", 0.0)
        number = driver.journal.records()[-1].number
        assert generation not in self.starts
        assert all((g < generation) == (n < number) for g, n in self.starts.items())
        self.starts[generation] = number
        self._acknowledge(driver, number, None)

    def _append(self, driver: Driver) -> None:
        value = self.next_value
        self.next_value += 1
        self.attempted.add(value)

        def attempt() -> None:
            driver.retry = attempt
            number = driver.journal.append(Said(value))
            driver.retry = None
            self._acknowledge(driver, number, value)

        attempt()

    def _summarize(self, driver: Driver) -> None:
        summary = Summed(tuple(said_in(driver.journal.records())))

        def attempt() -> None:
            driver.retry = attempt
            # If only a deletion failed, this is a second summary, of the same.
            number = driver.journal.summarize(summary)
            driver.retry = None
            self._acknowledge(driver, number, None)

        attempt()

    def _acknowledge(self, driver: Driver, number: int, value: int | None) -> None:
        assert number not in self.acknowledged, "a number was given twice"
        self.acknowledged[number] = value
        assert driver.journal.generation is not None
        for generation, start in self.starts.items():
            if generation > driver.journal.generation:
                assert number < start, "an older driver appended after a newer one had started"

    def _expect_newer(self, driver: Driver) -> None:
        newest = max((r.generation for r in opened(self.storage).records()), default=0)
        assert driver.journal.generation is None or newest > driver.journal.generation

    @invariant()
    def what_was_acknowledged_is_read_in_order_and_nothing_else(self) -> None:
        records = opened(self.storage).records()
        assert all(a.number + 1 == b.number and a.generation <= b.generation for a, b in pairwise(records))
        said = said_in(records)
        assert all(a < b for (a, _), (b, _) in pairwise(said))
        known = {number: value for number, value in self.acknowledged.items() if value is not None}
        assert known.items() <= dict(said).items()
        values = [value for _, value in said]
        assert len(values) == len(set(values))
        assert set(values) <= self.attempted


TestDriversOverOneStorage = DriversOverOneStorage.TestCase
