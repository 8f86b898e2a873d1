"""Members that read one batch at a time, and wait until it is digested, come to the end in every world.

Worlds usually have too few rows for a bound to matter. Here the bound is one byte, so members wait wherever
they may: a wait that nobody ends is a world that is stuck, and rows that were passed over are missing.
"""

import pytest

from pointstamp.query import member
from pointstamp.query.policy import Pacing
from pointstamp.simulate.seeds import cases, simulate
from support.broken_recovery import simulator_of, sound_flows


@pytest.mark.parametrize("name", ["running", pytest.param("carried", marks=pytest.mark.long)])
def test_a_bound_of_one_byte_changes_nothing_that_is_published(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = []

    class Narrow(Pacing):
        def __init__(self, _: int) -> None:
            super().__init__(1)

        def may_read(self, done_before: int, waiting: object) -> bool:
            may = super().may_read(done_before, waiting)  # type: ignore[arg-type]  # as it is given
            waited.append(not may)
            return may

    monkeypatch.setattr(member, "Pacing", Narrow)
    report = simulate(simulator_of(sound_flows()[name]()), cases(range(40), 1, 4, (0, 3)))
    assert report.finding is None, f"seed {report.finding.case.seed}: {report.finding.reason}"
    assert not report.unknown
    assert any(waited)
