"""Parse Spark SQL with sqlglot.

sqlglot knows many functions of many engines and turns each into a node of its own, with arguments in another
order; here a function is a name and its arguments, and what Spark's manual says of it is in
``sql_functions``.

Where sqlglot's grammar differs from Spark's, ``SparkSql`` corrects it: ``||`` binds like ``+``, adjacent
strings are one string, ``select all from t`` selects a column, and each pipe operator applies to the rows
before it.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from pointstamp.errors import SqlError

_WITH_WORDS_INSIDE: Final = ("CAST", "TRY_CAST", "EXTRACT", "POSITION", "TRIM", "SUBSTRING", "SUBSTR")
"""Functions whose arguments are not only separated by commas."""

COMMA: Final = "by comma"
"""The mark of a join that was written as a comma."""

POSITION: Final = "position"
"""The mark of a column that was given by its number before a pipe operator."""

TOO_DEEP: Final = "Split the query with WITH or CREATE VIEW, or write IN for a list of values."
"""The advice for a query that is nested too deeply."""

_NESTING_MAX: Final = 200
"""The maximum depth of parentheses and CASE, in which the parser recurses."""

_OPENING: Final = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE)
_CLOSING: Final = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END)
_PREFIXES: Final = (TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE)
_BEHIND_A_COLUMN: Final = (TokenType.FROM, TokenType.COMMA, TokenType.ALIAS, TokenType.R_PAREN, TokenType.DOT)

_ROWS: Final = frozenset(["expressions", "from_", "joins", "with_", "kind"])
_FILTERED: Final = _ROWS | {"where", "laterals"}
_PIPE_SELECT: Final = frozenset(["expressions", "distinct"])
_MAY_HAVE: Final = {
    "WHERE": _FILTERED,
    "SELECT": _FILTERED,
    "EXTEND": _FILTERED,
    "AGGREGATE": _FILTERED,
    "ORDER BY": _FILTERED,
    "DISTINCT": _FILTERED,
    "LIMIT": _FILTERED | {"order"},
}
"""The clauses with which a pipe operator becomes a part of a query; otherwise the query becomes a CTE."""


class SparkSql(Spark):
    """Spark's dialect; functions keep their names and arguments."""

    class Parser(Spark.Parser):  # type: ignore[valid-type, misc]  # a class, which sqlglot keeps in a variable
        """Reads statements."""

        FUNCTIONS: Final[dict[str, Any]] = {}
        FUNCTION_PARSERS: Final = {name: Spark.Parser.FUNCTION_PARSERS[name] for name in _WITH_WORDS_INSIDE}
        TERM: Final = {**Spark.Parser.TERM, TokenType.DPIPE: exp.DPipe}

        SCHEMA_UNNAMED_CONSTRAINTS: Final = {*Spark.Parser.SCHEMA_UNNAMED_CONSTRAINTS, "WATERMARK"}
        CONSTRAINT_PARSERS: Final = {
            **Spark.Parser.CONSTRAINT_PARSERS,
            "WATERMARK": lambda self: self._parse_watermark(),
        }

        def reset(self) -> None:
            """Forget the joins of the text before."""
            super().reset()
            self._joins_at: dict[tuple[int, int], tuple[exp.Expr | None, int]] = {}

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
            """A join; one by comma is marked, because it does not say that all pairs are meant.

            A join without ON is read twice by sqlglot, first as if joins inside of it followed, and so are
            those inside of it: what was read at a place is kept, or the time would double with each join.
            """
            at = (self._chunk_index, self._index)
            if at in self._joins_at and not args and set(options) <= {"alias_tokens"}:
                known, end = self._joins_at[at]
                self._advance(end - self._index)
                return known
            is_comma = self._curr is not None and self._curr.token_type is TokenType.COMMA
            found: exp.Expr | None = super()._parse_join(*args, **options)
            if found is not None and is_comma:
                found.meta[COMMA] = True
            if not args and set(options) <= {"alias_tokens"}:
                self._joins_at[at] = found, self._index
            return found

        # Pipe operators.

        def _parse_pipe_syntax_query(self, query: exp.Query) -> exp.Query | None:
            """Queries that continue with ``|>``: each operator sees what the one before it selects."""
            while self._curr.token_type is TokenType.PIPE_GT:
                may_have = _MAY_HAVE.get(self._next.text.upper(), _ROWS)
                if not _is_open(query, may_have):
                    query = exp.select("*").from_(query.subquery(_name_of(query), copy=False), copy=False)
                made = self._parse_pipe_operator(query)
                if made is None:
                    return None
                query = made
            return query

        def _parse_pipe_operator(self, query: exp.Query) -> exp.Query | None:
            self._match(TokenType.PIPE_GT)
            start, text = self._index, self._curr.text.upper()
            parser = self.PIPE_SYNTAX_TRANSFORM_PARSERS.get(text)
            if parser is not None:
                made: exp.Query = parser(self, query)
                return made
            found: exp.Query | None = self._parse_pipe_syntax_set_operator(query)
            found = found or self._parse_pipe_syntax_join(query)
            if found is None:
                self._retreat(start)
                self.raise_error(f"'|> {text}' is not supported")
            return found

        def _parse_pipe_syntax_select(self, query: exp.Select) -> exp.Select:
            found = self._parse_select(consume_pipe=False)
            if not isinstance(found, exp.Select) or not _is_open(found, _PIPE_SELECT, needs_star=False):
                self.raise_error("'|> SELECT' takes columns alone; write the other parts as operators")
            query.set("distinct", found.args.get("distinct"))
            made: exp.Select = query.select(*found.expressions, append=False, copy=False)
            return made

        def _parse_pipe_syntax_set_operator(self, query: exp.Query) -> exp.Query | None:
            found = self.parse_set_operation(this=query)
            if found is None:
                return None
            made: exp.Query = exp.select("*").from_(found.subquery(copy=False), copy=False)
            return made

        def _parse_pipe_syntax_aggregate(self, query: exp.Select) -> exp.Select:
            """AGGREGATE with GROUP BY: what rows are grouped by comes out first."""
            self._match_text_seq("AGGREGATE")
            is_grouped = self._match(TokenType.GROUP_BY)
            wanted = [] if is_grouped else self._parse_csv(self._parse_pipe_syntax_aggregate_fields)
            keys: list[exp.Expr] = []
            if is_grouped or self._match(TokenType.GROUP_BY):
                keys = self._parse_csv(self._parse_pipe_syntax_aggregate_fields)
                query.group_by(*(each.unalias().copy() for each in keys), copy=False)
            made: exp.Select = query.select(*keys, *wanted, append=False, copy=False)
            return made

        def _parse_pipe_syntax_aggregate_fields(self) -> exp.Expr | None:
            """The grouping values: a number is a column of the rows before this operator."""
            found: exp.Expr | None = super()._parse_pipe_syntax_aggregate_fields()
            if isinstance(found, exp.Literal) and found.is_int:
                column = exp.column(f"column {found.name}")
                column.meta.update(found.meta)
                column.meta[POSITION] = int(found.name)
                return column
            return found


def _name_of(query: exp.Query) -> str | None:
    """The name of the one table of a query, by which its columns may be called further on."""
    source = query.args.get("from_")
    return None if source is None or query.args.get("joins") else source.this.alias_or_name or None


def _is_open(query: exp.Query, may_have: frozenset[str], *, needs_star: bool = True) -> bool:
    """Return whether a query has no other parts than these, and selects all columns."""
    if not isinstance(query, exp.Select):
        return False
    stars = [isinstance(each, exp.Star) and not each.args.get("except_") for each in query.expressions]
    if needs_star and not all(stars):
        return False
    return all(part in may_have for part, found in query.args.items() if found not in (None, False, [], ""))


def parse(text: str) -> list[exp.Expr]:
    """The statements of a text; SqlError says where it is no SQL."""
    try:
        dialect = SparkSql()
        tokens = _as_spark_reads(dialect.tokenize(text), text)
        found = [each for each in dialect.parser().parse(tokens, text) if each is not None]
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        where = f"line {first.get('line', 1)}, column {first.get('col', 1)}"
        words = first.get("description") or str(error)
        near = first.get("highlight")
        raise SqlError(f"{where}: syntax error{_near(near)}: {words}") from error
    except TokenError as error:
        raise SqlError(f"line 1, column 1: syntax error: {error}") from error
    except RecursionError as error:
        raise SqlError(f"line 1, column 1: the query is nested too deeply. {TOO_DEEP}") from error
    return [each for each in found if not isinstance(each, exp.Semicolon)]


def _as_spark_reads(tokens: Sequence[Token], text: str) -> list[Token]:
    """Tokens as Spark's grammar has them; SqlError if they are nested too deeply."""
    _check_nesting(tokens)
    made: list[Token] = []
    for token in tokens:
        last = made[-1] if made else None
        if last is not None and last.token_type is token.token_type is TokenType.STRING:
            quote = text[token.start]
            is_escape = last.end + 1 == token.start and text[last.end] == quote  # 'it''s'
            made[-1] = Token(
                TokenType.STRING,
                last.text + (quote if is_escape else "") + token.text,
                last.line,
                last.col,
                last.start,
                token.end,
                last.comments,
            )
        else:
            made.append(token)
    for token, following in pairwise(made):
        # The function window(...), and no clause WINDOW w AS (...).
        if token.token_type is TokenType.WINDOW and following.token_type is TokenType.L_PAREN:
            token.token_type = TokenType.VAR
    for before, token, following in zip(made, made[1:], made[2:], strict=False):
        if (
            before.token_type is TokenType.SELECT
            and token.token_type in (TokenType.ALL, TokenType.DISTINCT)
            and following.token_type in _BEHIND_A_COLUMN
        ):
            token.token_type = TokenType.VAR
    return made


def _check_nesting(tokens: Sequence[Token]) -> None:
    depth = prefixes = 0
    for token in tokens:
        kind = token.token_type
        prefixes = prefixes + 1 if kind in _PREFIXES else 0
        depth += (kind in _OPENING) - (kind in _CLOSING)
        if depth + prefixes > _NESTING_MAX:
            raise SqlError(
                f"line {token.line}, column {token.col}: the query is nested more than {_NESTING_MAX} levels "
                f"deep. {TOO_DEEP}"
            )


def _near(text: str | None) -> str:
    return f" near {text!r}" if text else ""
