"""Which expressions have one meaning: ``a + b`` and ``b + a`` are one value to group by, as in Spark."""

from typing import Final

from pointstamp.expressions.tree import Call, CastTo, Choice, Expression, Named

_REORDERED: Final = ("add", "multiply", "and", "or")
"""Functions whose arguments may come in any order, also those of the same function inside of them."""
_SYMMETRIC: Final = ("equal", "not_equal", "equal_null_safe")
_TURNED: Final = {"greater": "less", "greater_equal": "less_equal"}
_NEGATED: Final = {
    "less": "greater_equal",
    "less_equal": "greater",
    "greater": "less_equal",
    "greater_equal": "less",
}


def canonical(expression: Expression) -> str:
    """A text that expressions with one meaning share.

    >>> from pointstamp.expressions.tree import col
    >>> canonical(col("a") + col("b")) == canonical(col("b") + col("a"))
    True
    >>> canonical(~(col("a") < col("b"))) == canonical(col("b") <= col("a"))
    True
    >>> canonical(col("a") - col("b")) == canonical(col("b") - col("a"))
    False
    """
    match expression:
        case Call("not", (Call(function, arguments),)) if function in _NEGATED:
            return canonical(Call(_NEGATED[function], arguments))
        case Call(function, arguments) if function in _TURNED:
            return canonical(Call(_TURNED[function], arguments[::-1]))
        case Call(function, arguments, options):
            words = _operands(function, arguments)
            if function in _REORDERED or function in _SYMMETRIC:
                words.sort()
            elif function == "is_in":
                words[1:] = sorted(words[1:])
            return f"{function}({', '.join(words)}; {sorted((options or {}).items(), key=repr)})"
        case CastTo(inner, to, is_tried):
            return f"{'try_' if is_tried else ''}cast({canonical(inner)} as {to})"
        case Named(inner):
            return canonical(inner)
        case Choice(branches, default):
            chosen = [f"when {canonical(one)} then {canonical(two)}" for one, two in branches]
            return f"case {' '.join(chosen)} else {'' if default is None else canonical(default)} end"
        case _:
            return str(expression)


def _operands(function: str, arguments: tuple[Expression, ...]) -> list[str]:
    """The operands of a function; of one that may come in any order, through all of its own calls."""
    if function not in _REORDERED:
        return [canonical(each) for each in arguments]
    found, waiting = [], list(arguments)
    while waiting:
        each = waiting.pop()
        if isinstance(each, Call) and each.function == function:
            waiting.extend(each.arguments)
        else:
            found.append(canonical(each))
    return found
