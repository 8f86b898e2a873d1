"""What is typed, cut into statements: a statement ends with a semicolon, a command is one line with a dot."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenType

from pointstamp.sql_views.parsing import SparkSql

_PROMPTS: Final = ("sql> ", "  .. ")


class Typed:
    """Statements as they come, from a terminal or from a file."""

    def __init__(self, history: Path | None = None) -> None:
        self.is_terminal = sys.stdin.isatty()
        self._history = history if self.is_terminal else None
        self._remember()

    def __iter__(self) -> Iterator[str]:
        """Each text that is whole: one command, or statements up to a semicolon."""
        waiting = ""
        while True:
            try:
                line = self._line(_PROMPTS[bool(waiting)])
            except KeyboardInterrupt:  # what was typed is forgotten, as in every shell
                sys.stdout.write("\n")
                waiting = ""
                continue
            if line is None:
                break
            if not waiting and line.lstrip().startswith("."):
                yield line.strip()
                continue
            whole, waiting = cut(waiting + line + "\n")
            if whole:
                yield whole
        if waiting.strip():
            yield waiting

    def _line(self, prompt: str) -> str | None:
        """The next line; None if there is none."""
        if not self.is_terminal:
            return line.rstrip("\n") if (line := sys.stdin.readline()) else None
        try:
            return input(prompt)
        except EOFError:
            sys.stdout.write("\n")
            return None

    def _remember(self) -> None:
        """Let the lines of earlier times be found with the arrow keys, where there is readline."""
        if self._history is None:
            return
        try:
            import atexit
            import readline
        except ModuleNotFoundError:
            return
        place = self._history
        with suppress(OSError):  # there is none yet, or none that can be read
            readline.read_history_file(place)

        def keep() -> None:
            with suppress(OSError):  # what cannot be kept is no reason to end badly
                readline.set_history_length(1_000)
                readline.write_history_file(place)

        atexit.register(keep)


def cut(text: str) -> tuple[str, str]:
    """The statements of a text that end with a semicolon, and what follows the last of them.

    >>> cut("select ';' from t; select 1")
    ("select ';' from t;", ' select 1')
    """
    try:
        tokens = SparkSql().tokenize(text)
    except TokenError:  # a string or a comment continues in the next line
        return "", text
    if not tokens:
        return "", ""
    ends = [token.end + 1 for token in tokens if token.token_type is TokenType.SEMICOLON]
    if not ends:
        return "", text
    rest = text[ends[-1] :]
    return text[: ends[-1]], rest if rest.strip() else ""
