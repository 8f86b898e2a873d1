"""Changes of steps and starts as columns."""

from typing import NamedTuple

from pointstamp.graphs.arrays.edge_runs import Counts, Lengths
from pointstamp.graphs.arrays.slots import Ids


class StepChanges(NamedTuple):
    """Distinct steps with their multiplicities, or changes of them."""

    src: Ids
    dst: Ids
    length: Lengths
    by: Counts


class StartChanges(NamedTuple):
    """Vertices that have a distance from the start on, added or taken away; of a vertex one of each."""

    ids: Ids
    distance: Lengths
    by: Counts
