"""Tables run alike wherever a flow runs: verified, in processes, with a checkpoint."""

from pathlib import Path
from typing import Any

import pytest

from support.table_worlds import FLOWS, inputs_of

NAMES = ("joined", "reach", "upserted")


def shown(results: Any) -> dict[str, dict[int, list[str]]]:  # noqa: ANN401 - tables by output and epoch
    return {
        name: {epoch: sorted(map(str, table.to_pylist())) for epoch, table in tables.items()}
        for name, tables in results.items()
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_verified_run_is_found_right(name: str) -> None:
    flow, inputs = FLOWS[name](), inputs_of(name)
    assert shown(flow.run(inputs, workers=2, verify=True)) == shown(flow.run(inputs))


@pytest.mark.parametrize("name", NAMES)
def test_a_run_in_processes_puts_out_the_same(name: str) -> None:
    flow, inputs = FLOWS[name](), inputs_of(name)
    assert shown(flow.run(inputs, processes=2)) == shown(flow.run(inputs))


@pytest.mark.parametrize("name", NAMES)
def test_a_run_with_a_checkpoint_puts_out_the_same(name: str, tmp_path: Path) -> None:
    flow, inputs = FLOWS[name](), inputs_of(name)
    assert shown(flow.run(inputs, workers=2, checkpoint=tmp_path)) == shown(flow.run(inputs))
