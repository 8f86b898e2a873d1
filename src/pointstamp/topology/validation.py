"""Reject invalid summaries when an operator is added.

A summary leads from the domain of its input to the domain of its output, and never takes time back: in the
normal form that means no negative increment and no negative constant. What a user's own root summary does
can only be tried: it is applied to the least time and to what comes of that, some dozens of times.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pointstamp.errors import TopologyError
from pointstamp.topology.domain import Domain, RootSummary
from pointstamp.topology.summary import Advance, Stay, Summary

TRIED_TIMES_MAX: Final = 32


def check_summaries(
    name: str,
    inputs: Sequence[Domain],
    outputs: Sequence[Domain],
    summaries: Mapping[tuple[int, int], Sequence[Summary]],
) -> None:
    """Raise TopologyError if a summary of this operator does not fit its ports or moves time back."""
    for (i, o), given in summaries.items():
        if not (0 <= i < len(inputs) and 0 <= o < len(outputs)):
            raise TopologyError(
                f"operator '{name}' has a summary from input {i} to output {o}, but only "
                f"{len(inputs)} inputs and {len(outputs)} outputs."
            )
        for summary in given:
            where = f"operator '{name}' has the summary {summary} from input {i} to output {o}"
            if not summary.fits(inputs[i], outputs[o]):
                raise TopologyError(
                    f"{where}, which does not lead from times {inputs[i]} to times {outputs[o]}. "
                    "Declare what enters, leaves or is appended."
                )
            _check_never_back(where, summary, inputs[i], outputs[o])


def _check_never_back(where: str, summary: Summary, origin: Domain, target: Domain) -> None:
    root = summary.root
    lowers_epoch = isinstance(root, Advance) and root.epochs < 0
    if lowers_epoch or any(number < 0 for number in summary.increments + summary.appended):
        raise TopologyError(f"{where}, which moves time back. Increments and constants must be 0 or more.")
    if not isinstance(root, Stay | Advance):
        _try_root_summary(where, root, origin, target)


def _try_root_summary(where: str, root: RootSummary, origin: Domain, target: Domain) -> None:
    same_order = origin.root == target.root
    for time in _tried_times(root, origin):
        after = root.results_in(time)
        if after is None:
            continue
        back = same_order and not origin.root.less_equal(time, after)
        key_before, key_after = origin.root.sort_key(time), target.root.sort_key(after)
        if back or key_after < key_before or (root.advances() and not key_before < key_after):
            raise TopologyError(
                f"{where}, which moves time back: it leads from {time} to {after}. A summary must lead to "
                "times that are greater or equal, also by sort_key, and strictly so if it advances."
            )


def _tried_times(root: RootSummary, origin: Domain) -> list[Any]:
    tried = [origin.root.minimum()]
    for time in tried:
        after = root.results_in(time)
        if after is not None and after not in tried and len(tried) < TRIED_TIMES_MAX:
            tried.append(after)
    return tried
