"""From text to a tree: Spark's grammar as sqlglot reads it, with functions left as they are written.

sqlglot knows many functions of many engines and turns each into a node of its own, with arguments in another
order; here a function is a name and its arguments, and what Spark's manual says of it is in ``functions``.
"""

from itertools import pairwise
from typing import Any, Final

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import TokenType

from pointstamp.errors import SqlError

_WITH_WORDS_INSIDE: Final = ("CAST", "TRY_CAST", "EXTRACT", "POSITION", "TRIM", "SUBSTRING", "SUBSTR")
"""Functions whose arguments are not only separated by commas."""

COMMA: Final = "by comma"
"""What marks a join that was written as a comma."""


class SparkSql(Spark):
    """Spark's dialect; functions keep their names and arguments."""

    class Parser(Spark.Parser):  # type: ignore[valid-type, misc]  # a class, which sqlglot keeps in a variable
        """Reads statements."""

        FUNCTIONS: Final[dict[str, Any]] = {}
        FUNCTION_PARSERS: Final = {name: Spark.Parser.FUNCTION_PARSERS[name] for name in _WITH_WORDS_INSIDE}

        SCHEMA_UNNAMED_CONSTRAINTS: Final = {*Spark.Parser.SCHEMA_UNNAMED_CONSTRAINTS, "WATERMARK"}
        CONSTRAINT_PARSERS: Final = {
            **Spark.Parser.CONSTRAINT_PARSERS,
            "WATERMARK": lambda self: self._parse_watermark(),
        }

        def _parse_watermark(self) -> exp.Expr | None:
            """WATERMARK FOR at AS at - INTERVAL 4 SECONDS; a column may be called so as well."""
            if not self._match(TokenType.FOR):
                return None
            column = self._parse_column()
            self._match(TokenType.ALIAS)
            found: exp.Expr = self.expression(
                exp.WatermarkColumnConstraint(this=column, expression=self._parse_disjunction())
            )
            return found

        def _warn_unsupported(self) -> None:
            """Say nothing: what becomes a command is refused with its place."""

        def _parse_join(self, *args: Any, **options: Any) -> exp.Expr | None:  # noqa: ANN401
            """A join; one by comma is marked, because it does not say that all pairs are meant."""
            is_comma = self._curr is not None and self._curr.token_type is TokenType.COMMA
            found: exp.Expr | None = super()._parse_join(*args, **options)
            if found is not None and is_comma:
                found.meta[COMMA] = True
            return found


def parse(text: str) -> list[exp.Expr]:
    """The statements of a text; SqlError says where it is no SQL."""
    try:
        dialect = SparkSql()
        tokens = dialect.tokenize(text)
        for token, following in pairwise(tokens):
            # The function window(...), and no clause WINDOW w AS (...).
            if token.token_type is TokenType.WINDOW and following.token_type is TokenType.L_PAREN:
                token.token_type = TokenType.VAR
        found = [each for each in dialect.parser().parse(tokens, text) if each is not None]
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        where = f"line {first.get('line', 1)}, column {first.get('col', 1)}"
        words = first.get("description") or str(error)
        near = first.get("highlight")
        raise SqlError(f"{where}: this is no SQL that can be read{_near(near)}: {words}") from error
    except TokenError as error:
        raise SqlError(f"line 1, column 1: this is no SQL that can be read: {error}") from error
    return [each for each in found if not isinstance(each, exp.Semicolon)]


def _near(text: str | None) -> str:
    return f" near {text!r}" if text else ""
