"""Save and restore the state that an operator declares.

An operator has ``save`` and ``restore`` of its own, or it declares ``state``, a mapping from the names of its
attributes to how each is saved (``pointstamp.state.saved``), or it says nothing and has nothing to save.
State that an operator does not declare is lost without an error. Capabilities are never state: a restored
operator takes its own back with ``context.regained()``.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from pointstamp.errors import FlowError, RecoveryError
from pointstamp.operators.context import Context
from pointstamp.operators.interface import DeclaresState, Restores, Saves
from pointstamp.optional import conforms
from pointstamp.state.pieces import Piece, Stateful
from pointstamp.state.saved import Saving


def stateful_of(logic: Any, name: str) -> Stateful | None:  # noqa: ANN401 - a plain object
    """The state of an operator: itself, its declared attributes, or None where it has none."""
    if isinstance(logic, Stateful):
        return logic
    declared = _declared(logic, name)
    if declared is None and (conforms(logic, Saves) or conforms(logic, Restores)):
        half, other = ("save", "restore") if conforms(logic, Saves) else ("restore", "save")
        raise FlowError(
            f"operator '{name}' is a {type(logic).__name__} with the method {half}() but without "
            f"{other}(). Add {other}(), or rename {half}() if it has nothing to do with snapshots."
        )
    return None if declared is None else DeclaredState(logic, name, declared)


def declares_state(logic: Any) -> bool:  # noqa: ANN401 - a plain object, or its class
    """Return whether an operator says that it keeps something, in either way."""
    declared = logic.state if conforms(logic, DeclaresState) else None
    is_named = isinstance(declared, Mapping) and any(isinstance(each, Saving) for each in declared.values())
    return is_named or isinstance(logic, Stateful)


class DeclaredState:
    """Saves and restores the declared attributes of one operator, all of them complete."""

    def __init__(self, logic: Any, name: str, declared: Mapping[str, Saving]) -> None:  # noqa: ANN401
        self._logic = logic
        self._name = name
        self._declared = declared

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """One piece for each attribute, under its name."""
        pieces = {}
        for attribute, saving in self._declared.items():
            if not hasattr(self._logic, attribute):
                raise FlowError(
                    f"operator '{self._name}' declares the state '{attribute}', but its "
                    f"{type(self._logic).__name__} does not have that attribute. Set it in __init__."
                )
            pieces[attribute] = saving.to_piece(self._who(attribute), getattr(self._logic, attribute))
        return pieces

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Set the attributes to what was saved."""
        for attribute, saving in self._declared.items():
            if attribute not in pieces:
                have = ", ".join(map(repr, pieces)) or "nothing"
                raise RecoveryError(
                    f"operator '{self._name}' declares the state '{attribute}', but the snapshot holds "
                    f"{have} of this operator. Resume with the saved flow, or start without the snapshot."
                )
            fresh = getattr(self._logic, attribute, None)
            value = saving.from_table(self._who(attribute), pieces[attribute], fresh)
            setattr(self._logic, attribute, value)

    def _who(self, attribute: str) -> str:
        return f"operator '{self._name}': the state '{attribute}'"


def _declared(logic: Any, name: str) -> Mapping[str, Saving] | None:  # noqa: ANN401
    """The declared state; an attribute ``state`` of another kind is not a declaration."""
    declared = logic.state if conforms(logic, DeclaresState) else None
    if not isinstance(declared, Mapping):
        return None
    savings = {attribute for attribute, saving in declared.items() if isinstance(saving, Saving)}
    if not savings:
        return None
    for attribute, saving in declared.items():
        if attribute not in savings:
            raise FlowError(
                f"operator '{name}' declares the state '{attribute}' as {saving!r}, which is not a way to "
                "save it. Write saved.values(...), saved.mapping(...), saved.arrow(...) or "
                "saved.bytes()."
            )
    return declared
