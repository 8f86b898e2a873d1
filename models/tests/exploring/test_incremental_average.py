"""The worked example prints what the paper prints.

One family: the rows of figure 10 of Veresov et al. 2024, as its caption and section 5.1 describe them;
only they can find an explainer that is right about everything but the paper's own example.
"""

import pytest

from pointstamp_models.exploring.incremental_average import (
    RESET,
    average,
    figure,
    figure_rows,
    worked_example,
)


@pytest.mark.parametrize(
    ("value", "event", "after"),
    [((0, 0), 1, ((1, 1), (1,))), ((1, 1), 3, ((4, 2), (2,))), ((9, 3), RESET, ((0, 0), ()))],
)
def test_the_average_is_that_since_the_last_reset(
    value: tuple[int, int], event: int | str, after: tuple[tuple[int, int], tuple[int, ...]]
) -> None:
    assert average(value, event) == after


def test_the_rows_of_the_figure_come_out() -> None:
    assert figure_rows(figure()) == [
        "                      E<1>     BD       E<3>     fail     recover  Reset    E<3>     E<5>     BD",
        "execution    0, a0    1, a0    1, a1    2, a1    fl, a1   1, a1    0, a1    3, a1    4, a1    4, a2",
        "explanation  0, a0    1, a0    1, a1                               0, a1    3, a1    4, a1    4, a2",
        "seen in      0, a0    0, a0    1, a1    1, a1    1, a1    1, a1    1, a1    1, a1    1, a1    4, a2",
        "av, archive: a0 = [0 -> 0], a1 = a0[1 -> 1], a2 = a1[2 -> 4]",
    ]


def test_the_average_of_two_is_undone_and_never_visible() -> None:
    explanation = figure()
    assert (2, (4, 2)) in [state.sigma[0][1] for _, state in explanation.execution]
    assert (2, (4, 2)) not in [state.sigma[0][1] for state in explanation.states]


def test_the_example_ends_with_its_verdict() -> None:
    assert worked_example().splitlines()[-1] == "explained"
