"""A status as text in the format of Prometheus; docs/reference/metrics.md names each metric."""

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

Labels: TypeAlias = Mapping[str, str]
Sample: TypeAlias = tuple[str, Labels, float]
"""A metric's name, its labels, and the number."""

HELP: Final = {
    "pointstamp_up": ("gauge", "1 while the query runs, 0 after its end."),
    "pointstamp_epoch_published": ("gauge", "The last epoch that is published; -1 before the first."),
    "pointstamp_generation": ("gauge", "How often the checkpoint was started or restarted."),
    "pointstamp_restarts_total": ("counter", "How often the workers were started again after a failure."),
    "pointstamp_rows_in_total": ("counter", "Rows that came in, by input, in this generation."),
    "pointstamp_rows_late_total": ("counter", "Rows that came too late, by input, in this generation."),
    "pointstamp_rows_out_total": ("counter", "Rows of finished epochs, by output, in this generation."),
    "pointstamp_input_epoch": ("gauge", "The first epoch at which an input may still send."),
    "pointstamp_output_epoch": ("gauge", "The first epoch that an output waits for."),
    "pointstamp_loop_epochs": ("gauge", "The epochs that are in a loop."),
    "pointstamp_loop_round": ("gauge", "The last round that something in a loop is in."),
    "pointstamp_loop_messages": ("gauge", "The messages that wait in a loop."),
    "pointstamp_kept_rows": ("gauge", "Rows that an operator keeps, by operator and what it is."),
    "pointstamp_kept_bytes": ("gauge", "Bytes that an operator keeps, by operator and what it is."),
    "pointstamp_spilled_bytes": ("gauge", "Bytes of these that lie in files, because memory is limited."),
    "pointstamp_worker_memory_bytes": ("gauge", "The memory that a worker's process holds."),
    "pointstamp_age_seconds": ("gauge", "How old what is known of the workers is."),
}
"""Each metric: its type, and what it says."""


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
