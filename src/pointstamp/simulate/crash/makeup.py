"""The constant properties of a simulated world: speeds, rates, snapshot intervals.

The first of the options of each choice is the plain one. The order of the choices is part of what a seed
means: changing it changes every world.
"""

from dataclasses import dataclass
from typing import Final

from pointstamp.query.policy import SnapshotPolicy
from pointstamp.simulate.choices import Choices
from pointstamp.simulate.world import DELAYS_MAX, PACES, SILENT_ACTIVATIONS, one_of

_SNAPSHOT_EPOCHS: Final = (1, 1, 2, 3)
_CHAINS_MAX: Final = (256, 1, 2, 4)
_CRASHES_ONE_IN: Final = (40, 10, 25, 120, 400)
_SUMMARIES_ONE_IN: Final = (0, 4, 15)
_SCRIBE_PACES: Final = (1, 3, 12)
_EPOCHS_IN_FLIGHT: Final = (64, 2, 4)


@dataclass(frozen=True, slots=True)
class Makeup:
    """Paces are in ticks of the world's clock; ``*_one_in`` is how often something happens, 0 for never."""

    paces: list[int]
    delays_max: list[list[int]]
    control_delay_max: int
    silent_activations_max: int
    crashes_one_in: int
    summaries_one_in: int
    scribe_pace: int
    snapshots: SnapshotPolicy
    epochs_max: int

    @classmethod
    def of(cls, choices: Choices, workers: int) -> "Makeup":
        """As the choices say, made in this order."""
        return cls(
            paces=[one_of(choices, PACES) for _ in range(workers)],
            delays_max=[[one_of(choices, DELAYS_MAX) for _ in range(workers)] for _ in range(workers)],
            control_delay_max=one_of(choices, DELAYS_MAX),
            silent_activations_max=one_of(choices, SILENT_ACTIVATIONS),
            crashes_one_in=one_of(choices, _CRASHES_ONE_IN),
            summaries_one_in=one_of(choices, _SUMMARIES_ONE_IN),
            scribe_pace=one_of(choices, _SCRIBE_PACES),
            snapshots=SnapshotPolicy(
                one_of(choices, _SNAPSHOT_EPOCHS), chain_max=one_of(choices, _CHAINS_MAX)
            ),
            epochs_max=one_of(choices, _EPOCHS_IN_FLIGHT),
        )
