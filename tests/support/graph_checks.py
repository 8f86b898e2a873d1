"""The rules by which LDBC Graphalytics says whether an answer is right, as checkers of one answer by another.

- *exact match*: the same value for every vertex (BFS, CDLP);
- *equivalence*: the same partition of the vertices, under any names (WCC);
- *epsilon*: values that differ by at most 0.01 % of the expected one (PageRank, LCC, SSSP).
"""

import math
from collections.abc import Hashable, Mapping
from typing import Any

EPSILON = 0.0001

Answer = Mapping[Any, Any]


def check_exact(expected: Answer, found: Answer) -> None:
    """Every vertex has the expected value."""
    assert found == expected


def check_equivalent(expected: Answer, found: Answer) -> None:
    """Two vertices have the same label in one answer if and only if they have in the other."""
    assert found.keys() == expected.keys()
    theirs: dict[Hashable, Hashable] = {}
    ours: dict[Hashable, Hashable] = {}
    for vertex, label in expected.items():
        assert theirs.setdefault(label, found[vertex]) == found[vertex], f"{label} was divided at {vertex}"
        assert ours.setdefault(found[vertex], label) == label, f"{found[vertex]} was joined at {vertex}"


def check_epsilon(expected: Answer, found: Answer) -> None:
    """Every value is as near to the expected one as Graphalytics wants it; infinite where it is infinite."""
    assert found.keys() == expected.keys()
    for vertex, value in expected.items():
        is_near = math.isclose(value, found[vertex], rel_tol=EPSILON, abs_tol=0.0)
        assert is_near, f"{vertex}: {found[vertex]} for {value}"
