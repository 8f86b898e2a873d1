"""A status as text in the format of Prometheus; docs/reference/metrics.md names each metric."""

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

Labels: TypeAlias = Mapping[str, str]
Sample: TypeAlias = tuple[str, Labels, float]
"""A metric's name, its labels, and the number."""

HELP: Final = {
    "pointstamp_up": ("gauge", "1 while the query runs, 0 after its end."),
    "pointstamp_epoch_published": ("gauge", "The last epoch that is published; -1 before the first."),
    "pointstamp_generation": ("gauge", "Starts and restarts of the checkpoint."),
    "pointstamp_restarts_total": ("counter", "Restarts of the workers after a failure."),
    "pointstamp_rows_in_total": ("counter", "Rows that were read, by input, in this generation."),
    "pointstamp_rows_late_total": ("counter", "Late rows, by input, in this generation."),
    "pointstamp_rows_out_total": ("counter", "Rows of finished epochs, by output, in this generation."),
    "pointstamp_input_epoch": ("gauge", "The first epoch at which an input may still send."),
    "pointstamp_output_epoch": ("gauge", "The first epoch that an output waits for."),
    "pointstamp_loop_epochs": ("gauge", "Epochs that are open in a loop."),
    "pointstamp_loop_round": ("gauge", "The last round with a message in a loop."),
    "pointstamp_loop_messages": ("gauge", "Messages that wait in a loop."),
    "pointstamp_kept_rows": ("gauge", "Rows in the state of an operator."),
    "pointstamp_kept_bytes": ("gauge", "Bytes of the state of an operator."),
    "pointstamp_spilled_bytes": ("gauge", "Bytes of this state in files, because memory is limited."),
    "pointstamp_worker_memory_bytes": ("gauge", "Memory of a worker's process."),
    "pointstamp_age_seconds": ("gauge", "Age of the last answer of the workers."),
}
"""The type and the description of each metric."""


def exposed(samples: Iterable[Sample], flow: str) -> str:
    r"""The samples as text, by metric in the order of ``HELP``; each has the flow's name as a label.

    >>> print(exposed([("pointstamp_up", {}, 1)], 'a "flow"'), end="")
    # HELP pointstamp_up 1 while the query runs, 0 after its end.
    # TYPE pointstamp_up gauge
    pointstamp_up{flow="a \"flow\""} 1
    """
    found: dict[str, list[str]] = {}
    for name, labels, number in samples:
        told = ",".join(f'{label}="{_escaped(value)}"' for label, value in {"flow": flow, **labels}.items())
        found.setdefault(name, []).append(f"{name}{{{told}}} {number:.15g}")
    lines: list[str] = []
    for name, (kind, words) in HELP.items():
        if name in found:
            lines += [f"# HELP {name} {words}", f"# TYPE {name} {kind}", *found[name]]
    return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
