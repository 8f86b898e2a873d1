"""Count votes: the most frequent label of each voter, the least of several."""

import numpy as np

from pointstamp.graphs.arrays.slots import Slots
from pointstamp.graphs.ranks.link_runs import Numbers


def most_votes(voters: Slots, labels: Numbers, weights: Numbers) -> tuple[Slots, Numbers]:
    """The voters for whom any votes are left, ascending, and the label that each of them takes.

    A vote that was taken back is there with both signs, and counts for nothing.

    >>> voters, labels = most_votes(np.array([0, 0, 0, 3, 3, 5, 5]), np.array([7, 9, 7, 8, 4, 1, 1]),
    ...                             np.array([1, 1, 1, 1, 1, 1, -1]))
    >>> voters.tolist(), labels.tolist()
    ([0, 3], [7, 4])
    """
    order = np.lexsort((labels, voters))
    voters, labels, weights = voters[order], labels[order], weights[order]
    first = _firsts(voters, labels)
    votes = np.add.reduceat(weights, first) if len(first) else weights
    there = np.flatnonzero(votes)
    voters, labels, votes = voters[first[there]], labels[first[there]], votes[there]
    order = np.lexsort((labels, -votes, voters))
    first = _firsts(voters[order])
    return voters[order[first]], labels[order[first]]


def _firsts(*columns: Numbers) -> Slots:
    """Where in sorted columns a value begins that is not the one before."""
    is_first = np.ones(len(columns[0]), np.bool_)
    is_first[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.flatnonzero(is_first)
