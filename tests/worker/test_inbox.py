"""The inbox: nothing is lost, batches of one input and time stay in order and come together."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pointstamp.worker.instance import COALESCE_ROWS_MAX, Inbox

puts = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(0, 5)), max_size=30)


@given(puts)
def test_everything_comes_out_once_in_order_per_input_and_time(
    given_puts: list[tuple[int, int, int]],
) -> None:
    inbox = Inbox()
    expected: dict[tuple[int, int], list[int]] = {}
    for number, (port, epoch, size) in enumerate(given_puts):
        inbox.put(port, (epoch,), pa.record_batch({"x": pa.array([number] * size, pa.int64())}))
        expected.setdefault((port, epoch), []).extend([number] * size)
    assert len(inbox) == len(given_puts)
    assert len(list(inbox)) == len(given_puts)
    pulled: dict[tuple[int, int], list[int]] = {}
    messages = 0
    while inbox:
        port, time, batch, brought_by = inbox.pull()
        messages += brought_by
        assert (port, time[0]) not in pulled  # they come together
        pulled[port, time[0]] = batch["x"].to_pylist()
    assert pulled == expected
    assert messages == len(given_puts)


def test_the_one_that_has_waited_longest_comes_first() -> None:
    inbox = Inbox()
    for epoch in (3, 1, 3, 2):
        inbox.put(0, (epoch,), pa.record_batch({"x": [epoch]}))
    assert [inbox.pull()[1] for _ in range(3)] == [(3,), (1,), (2,)]


def test_large_batches_are_not_brought_together_without_end() -> None:
    inbox = Inbox()
    half = pa.record_batch({"x": pa.array(range(COALESCE_ROWS_MAX // 2 + 1), pa.int64())})
    for _ in range(5):
        inbox.put(0, (0,), half)
    assert [inbox.pull()[3] for _ in range(3)] == [2, 2, 1]
