from typing import Any

import numpy as np
import numpy.typing as npt

_Slots = npt.NDArray[np.intp]
_Words = npt.NDArray[Any]

class SlotTable:
    def find(self, words: _Words, is_integer: bool) -> _Slots: ...
    def candidates(self, hashed: int) -> list[int]: ...
    def enter(self, hashes: npt.NDArray[np.uint64], first: int) -> None: ...
    def number(
        self,
        words: _Words,
        is_integer: bool,
        valid: npt.NDArray[np.bool_] | None,
        null_slot: int,
        next_slot: int,
    ) -> tuple[_Slots, _Slots]: ...
