"""docs/reference/glossary.md is true as far as a program can tell, and one word has one meaning.

Families, and what only each can find:
- words: each is in the glossary once, in whole sentences, with a place that exists and an origin;
- classes: a public class name is defined once in src/pointstamp, unless the glossary says why it is not; and
  what the glossary says is used twice is.
What none of them can find is a sentence that is wrong.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
SOURCE: Final = ROOT / "src" / "pointstamp"
_PAGE: Final = ROOT / "docs" / "reference" / "glossary.md"
BEFORE, AFTER = _PAGE.read_text().split("## Terms with two meanings")
REFERENCE: Final = re.compile(r"`([\w/]+\.py)::([\w.]+)`")


def rows(text: str) -> Iterator[list[str]]:
    """The cells of every row of the tables of a text, without their headlines."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and not set(line) <= set("|-") and cells[0] != "term":
            yield cells


WORDS: Final = list(rows(BEFORE))
TWICE: Final = list(rows(AFTER))


@cache
def names_in(path: Path) -> frozenset[str]:
    """The functions, classes and variables of a file, members as ``Class.member``."""
    found: set[str] = set()

    def collect(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            match node:
                case ast.ClassDef(name=name):
                    found.add(prefix + name)
                    collect(node.body, f"{prefix}{name}.")
                case ast.FunctionDef(name=name):
                    found.add(prefix + name)
                case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                    found.add(prefix + name)
                case _:
                    pass

    collect(ast.parse(path.read_text()).body, "")
    return frozenset(found)


def classes() -> dict[str, list[str]]:
    """The public classes of the package, by name, with the files that define one of that name."""
    found: dict[str, list[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(path.relative_to(SOURCE).as_posix())
    return found


# Words.


def test_each_word_is_explained_once_and_in_the_order_of_the_alphabet() -> None:
    assert len(WORDS) > 80
    assert [word for word, count in Counter(row[0] for row in WORDS).items() if count > 1] == []
    for section in BEFORE.split("\n## ")[1:]:
        words = [row[0] for row in rows(section)]
        assert words == sorted(words), section.partition("\n")[0]


def test_each_explanation_is_whole_sentences_with_a_place_and_an_origin() -> None:
    for word, meaning, where, origin in WORDS:
        assert re.fullmatch(r"[A-Z][^|]*\.", meaning), f"{word}: {meaning}"
        assert REFERENCE.fullmatch(where), f"{word}: {where}"
        assert origin, word


def test_each_place_exists() -> None:
    for row in (*WORDS, *TWICE):
        for path, name in REFERENCE.findall(" ".join(row)):
            assert (SOURCE / path).is_file(), f"{row[0]}: {path}"
            assert name in names_in(SOURCE / path), f"{row[0]}: {path} has no {name}"


# Classes.


def test_a_class_name_is_defined_once_unless_the_glossary_says_why_not() -> None:
    twice = {name: files for name, files in classes().items() if len(files) > 1}
    listed = {row[0].strip("`"): sorted(path for path, _ in REFERENCE.findall(row[1])) for row in TWICE}
    assert twice == listed


def test_what_is_used_twice_has_a_reason() -> None:
    for word, where, reason in TWICE:
        assert {name for _, name in REFERENCE.findall(where)} == {word.strip("`")}
        assert len(reason.split()) > 5, word
