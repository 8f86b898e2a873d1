"""The last hour of a query: what it says of ticks and snapshots, and that it never grows without end."""

from pointstamp.driver.messages import Load, OperatorLoad
from pointstamp.journal.history import Committed
from pointstamp.query.page_data import WorkerRates
from pointstamp.query.timeline import EVENTS_MAX, SPANS_MAX, TICKS_MAX, Timeline


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def commit(number: int, epoch: int) -> Committed:
    return Committed(number, epoch, True, [], [], 0)


def test_a_tick_is_known_from_when_it_was_recorded_until_it_is_published() -> None:
    clock = Clock()
    timeline = Timeline(clock)
    timeline.ticked(0, 0, 0)
    clock.now = 1001.0
    timeline.completed(1)
    clock.now = 1002.0
    timeline.save_asked(0)
    clock.now = 1003.0
    timeline.saved(0)
    clock.now = 1004.0
    timeline.published(commit(0, 0), rows=50)
    all_of_it = timeline.since(0.0)
    (tick,), (span,), (snapshot,) = all_of_it["ticks"], all_of_it["hour"], all_of_it["snapshots"]
    assert [tick[each] for each in ("ticked", "complete", "saved", "published")] == [1000, 1001, 1003, 1004]
    assert (span["rows"], span["epochs"]) == (50, 1)
    assert 4.0 <= span["latency"][0] <= 5.0
    assert (snapshot["begun"], snapshot["done"]) == (1002, 1004)
    assert timeline.since(1005.0)["ticks"] == []


def test_an_epoch_took_as_many_rounds_as_the_worker_with_the_most_says() -> None:
    timeline = Timeline(Clock())
    timeline.ticked(0, 0, 1)
    timeline.ticked(1, 2, 2)
    timeline.ticked(2, 3, 3)
    timeline.turned({0: 3, 1: 5})
    timeline.turned({0: 4, 2: 1})
    timeline.turned({})
    assert [tick["rounds"] for tick in timeline.since(0.0)["ticks"]] == [6, 2, None]
    assert [span["rounds"] for span in timeline.since(0.0)["hour"]] == [6]


def test_ticks_of_a_lost_generation_are_given_out_again() -> None:
    clock = Clock()
    timeline = Timeline(clock)
    timeline.generation = 1
    for number in range(3):
        timeline.ticked(number, number, number)
    timeline.saved(0)
    timeline.published(commit(0, 0), rows=0)
    timeline.lost("worker 1 was killed")
    assert [tick["number"] for tick in timeline.since(0.0)["ticks"]] == [0]
    clock.now, timeline.generation = 1002.0, 2
    timeline.went_on()
    timeline.ticked(1, 1, 1)
    assert [(tick["number"], tick["generation"]) for tick in timeline.since(0.0)["ticks"]] == [(0, 1), (1, 2)]
    (loss,) = timeline.since(0.0)["restarts"]
    assert (loss["words"], loss["at"], loss["went_on"]) == ("worker 1 was killed", 1000, 1002)


def test_a_long_life_is_kept_in_bounds() -> None:
    clock = Clock()
    timeline = Timeline(clock)
    for number in range(3 * SPANS_MAX):
        clock.now += 7.0
        timeline.ticked(number, number, number)
        timeline.save_asked(number)
        timeline.saved(number)
        timeline.measured(0, number)
        timeline.published(commit(number, number), rows=1)
        timeline.lost("again")
    kept = {name: len(each) for name, each in timeline.since(0.0).items()}
    assert kept == {"ticks": TICKS_MAX, "hour": SPANS_MAX, "snapshots": EVENTS_MAX, "restarts": EVENTS_MAX}


def load(seconds: float, rows: int, seen: int, looks: int, processor: float = 0.0) -> Load:
    return Load(seconds, 1, processor, looks, [OperatorLoad(3, 1, 10, rows, 2 * rows, 0, seen)])


def test_rates_are_what_two_reports_differ_by() -> None:
    rates = WorkerRates.first(load(10.0, 100, 0, 0)).then(load(12.0, 300, 25, 50, 1.0))
    operator = rates.operators[3]
    assert (operator.rows_in, operator.rows_out, operator.busy, operator.rows_waiting) == (100, 200, 0.5, 10)
    assert rates.busy == 0.5


def test_a_report_of_another_process_begins_anew() -> None:
    before = WorkerRates.first(load(10.0, 100, 0, 0, 5.0))
    assert before.then(load(11.0, 5, 0, 0, 0.1)).operators[3].rows_in == 0
    assert before.then(load(10.0, 100, 0, 0, 5.0)) is before
