"""What an operator keeps without declaring it: noticed when its state is saved, and said once.

A custom operator is opaque, but what changed since its creation is visible: an attribute that was bound
again, or a collection that has grown or shrunk. An operator that declares no state and has such an attribute
will have forgotten it after a restart. It is a warning and not an error, because it may be a cache. What is
changed deep inside an object goes unnoticed.
"""

import warnings
from collections.abc import Collection, Mapping
from typing import Any, Final

from pointstamp.errors import PointstampWarning
from pointstamp.operators.capability import Capability

_PLAIN: Final = (bool, int, float, str, bytes, tuple, type(None))


class Undeclared:
    """Detects undeclared state of one operator."""

    def __init__(self, logic: Any, name: str) -> None:  # noqa: ANN401 - a plain object
        self._logic = logic
        self._name = name
        self._before = {key: (value, _length(value)) for key, value in _attributes(logic).items()}
        self.is_silent = logic is None or type(logic).__module__.partition(".")[0] == "pointstamp"

    def look(self) -> None:
        """Warn, once, if the operator keeps something."""
        if self.is_silent:
            return
        kept = [key for key, value in _attributes(self._logic).items() if self._has_changed(key, value)]
        if not kept:
            return
        self.is_silent = True
        warnings.warn(
            f"operator '{self._name}' keeps {', '.join(kept)} and declares no state; after a restart it will "
            f"begin without it. Declare it, state = {{'{kept[0]}': saved.values(...)}}, or write save() and "
            "restore().",
            PointstampWarning,
            stacklevel=2,
        )

    def _has_changed(self, key: str, value: Any) -> bool:  # noqa: ANN401
        if _holds_capabilities(value):
            return False  # these are saved for it
        if key not in self._before:
            return True
        before, length = self._before[key]
        if value is before:
            return _length(value) != length
        return not (isinstance(value, _PLAIN) and type(value) is type(before) and value == before)


def _attributes(logic: Any) -> Mapping[str, Any]:  # noqa: ANN401
    return getattr(logic, "__dict__", {})


def _length(value: Any) -> int | None:  # noqa: ANN401
    return len(value) if isinstance(value, Collection) else None


def _holds_capabilities(value: Any) -> bool:  # noqa: ANN401
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, Capability):
        return True
    is_collection = isinstance(value, Collection) and not isinstance(value, (str, bytes))
    return is_collection and len(value) > 0 and all(isinstance(each, Capability) for each in value)
