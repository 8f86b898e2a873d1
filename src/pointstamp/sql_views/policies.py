"""Refresh policies, and ``create materialized view`` texts that name them.

| policy | a view that is incremental | a view that is not |
|---|---|---|
| ``INCREMENTAL`` | is kept up to date | ``SqlError`` when it is defined |
| ``AUTO`` | is kept up to date | is recomputed by Spark at each refresh, in the same commit |
| ``FULL`` | is recomputed by Spark at each refresh | is recomputed by Spark at each refresh |

Whether a view is incremental follows from its plan alone, so nothing changes from one refresh to the next.
A refresh that cannot be incremental is an error, as with ``INCREMENTAL STRICT`` of Databricks. There is no
policy that recomputes a view at one refresh and not at another one, so this name is rejected.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from pointstamp.errors import FlowError, SqlError

RefreshPolicy: TypeAlias = Literal["AUTO", "INCREMENTAL", "FULL"]
"""What becomes of a view at a refresh."""

POLICIES: Final[tuple[RefreshPolicy, ...]] = get_args(RefreshPolicy)

_PIECE: Final = re.compile(
    r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`(?:[^`]|``)*`|--[^\n]*|/\*.*?\*/|;|[^'\"`;/-]+|.",
    re.DOTALL,
)
_STATEMENT: Final = re.compile(
    r"\s*(?:explain\s+)?create\s+(?:or\s+(?:replace|refresh)\s+)?materialized\s+view\s+"
    r"(?:if\s+not\s+exists\s+)?(?P<name>(?:`(?:[^`]|``)+`|[\w$]+)(?:\.(?:`(?:[^`]|``)+`|[\w$]+))*)"
    r"(?:\s+comment\s+'(?:[^'\\]|\\.|'')*'"
    r"|\s+refresh\s+policy\s+(?P<policy>auto|incremental\s+strict|incremental|full))*"
    r"\s+as\s+(?P<query>.+)",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class DeclaredView:
    """A view of a text: its name, its query, and its policy if the text has one."""

    name: str
    query: str
    policy: RefreshPolicy | None


def check_policy(policy: str) -> RefreshPolicy:
    """Return a policy in capitals; FlowError if there is no such one.

    >>> check_policy("incremental")
    'INCREMENTAL'
    """
    wanted = " ".join(policy.upper().split())
    for known in POLICIES:
        if known == wanted:
            return known
    if wanted == "INCREMENTAL STRICT":
        raise FlowError(
            "the policy INCREMENTAL STRICT is not supported. Write INCREMENTAL, with which a refresh never "
            "recomputes a view."
        )
    raise FlowError(f"policy must be one of {', '.join(POLICIES)}, got '{policy}'. Choose one of these.")


def is_statement(text: str) -> bool:
    """Return whether a text creates a materialized view.

    >>> is_statement("create materialized view v as select 1"), is_statement("select 1")
    (True, False)
    """
    return _STATEMENT.fullmatch(text) is not None


def declared_view(text: str) -> DeclaredView:
    """Return the view of a ``create materialized view`` text; SqlError if it is not one.

    >>> found = declared_view("CREATE MATERIALIZED VIEW gold.v REFRESH POLICY AUTO AS SELECT 1")
    >>> found.name, found.policy, found.query
    ('v', 'AUTO', 'SELECT 1')
    """
    found = _STATEMENT.fullmatch(text)
    if found is None:
        raise SqlError(
            f"'{' '.join(text.split())[:60]}' is not a materialized view. Write CREATE MATERIALIZED VIEW "
            "name [REFRESH POLICY policy] AS query."
        )
    name = re.findall(r"`(?:[^`]|``)+`|[\w$]+", found["name"])[-1]
    plain = name[1:-1].replace("``", "`") if name.startswith("`") else name
    policy = None if found["policy"] is None else check_policy(found["policy"])
    return DeclaredView(plain, found["query"].strip(), policy)


def statements(text: str) -> Iterator[str]:
    """Yield the statements of a text, which end with ``;``, without the comments between them.

    >>> list(statements("select ';'; -- one; two"))
    ["select ';'"]
    """
    now = ""
    for piece in _PIECE.findall(text):
        if piece == ";":
            if now.strip():
                yield now.strip()
            now = ""
        elif piece.startswith("--") or (piece.startswith("/*") and not piece.startswith("/*+")):
            now += " "
        else:  # hints, too
            now += piece
    if now.strip():
        yield now.strip()
