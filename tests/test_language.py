"""The language of the project: texts use the terms of the field.

Two laws:
- phrases: README, docs, docstrings and string literals of the source contain none of the phrases below,
  except as often as tests/language_exceptions.json allows for a file. That list may only shrink: a file with
  fewer phrases than it is allowed fails too, until its entry is lowered (``python tests/test_language.py``
  writes the list);
- subjects: a docstring begins with a verb or its subject, not with "What ...", "How many ..." or "Of ...".
"""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
EXCEPTIONS: Final = Path(__file__).with_name("language_exceptions.json")
PHRASES: Final = re.compile(
    r"\b(?:goes|go|went|gone) on\b|\bputs? out\b|\banew\b|\bunless told\b|\bone's own\b|\bin words\b"
    r"|[.:] Who(?:ever)? [a-z]+|\b(?:nobody|everybody|somebody)\b|\bof the processor\b|\bby the clock\b"
    r"|(?<!\bthere )(?<!\bThere )\bis no (?!longer\b|more\b)[a-z]+|\w,:"
    r"|\b(?:takes?|taken|took) back\b|\bhand(?:s|ed)? (?:over|on)\b|\bl(?:ets?) go\b|\bfor ever\b"
    r"|\badd(?:s|ed)? up\b|\bwork(?:s|ed) out\b|\bon (?:its|their) way\b|\bunder way\b|\bstrangers?\b"
    r"|\bwhoever\b|\bspeaks? of\b|\bspoken of\b|\bfall(?:s|en)? silent\b|\b(?:says?|told) otherwise\b"
    r"|\bgo(?:es)? by\b"
)

HEADLESS: Final = re.compile(r"(?:What|Who|Whose|Whom|Which|How|Where|Of|As|Everything|Everyone)\b")
NOT_YET: Final = ("src/pointstamp/incremental/", "src/pointstamp/plan/", "src/pointstamp/spark/")
"""Packages whose docstrings the second law does not read; this list may only shrink."""


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """The prose of a file, with line numbers: all of a page, and the string literals of a module."""
    if path.suffix == ".md":
        yield from enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for number, line in enumerate(node.value.splitlines()):
                yield node.lineno + number, line


def files() -> list[Path]:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    modules = [*(ROOT / "src").rglob("*.py"), *(ROOT / "models" / "src").rglob("*.py")]
    return sorted([*pages, *modules])


def found() -> dict[str, list[str]]:
    places: dict[str, list[str]] = {}
    for path in files():
        name = path.relative_to(ROOT).as_posix()
        for line, text in texts(path):
            for match in PHRASES.finditer(text):
                places.setdefault(name, []).append(f"{name}:{line}: '{match[0]}' in: {text.strip()}")
    return places


def test_the_law_finds_a_phrase_in_a_page_and_in_a_literal(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("Rows are counted.\nThe query goes on.\n")
    (tmp_path / "a.py").write_text('"""Counts rows."""\nraise ValueError("this is no number")\n')
    for name, phrase in (("a.md", "goes on"), ("a.py", "is no number")):
        assert [m[0] for _, text in texts(tmp_path / name) for m in PHRASES.finditer(text)] == [phrase]


def test_texts_use_the_terms_of_the_field() -> None:
    assert len(files()) > 300
    allowed: dict[str, int] = json.loads(EXCEPTIONS.read_text(encoding="utf-8"))
    places = found()
    for name, hits in places.items():
        assert len(hits) <= allowed.get(name, 0), "\n".join(hits)
    fewer = [name for name, count in allowed.items() if len(places.get(name, [])) < count]
    assert not fewer, f"{fewer}: lower the count in {EXCEPTIONS.name}; the list may only shrink."


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """The first lines of all docstrings of a module, also those of attributes, with their numbers."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            text = node.value.value
            if isinstance(text, str):
                yield node.lineno, text.strip().partition("\n")[0]


def test_a_docstring_begins_with_a_verb_or_with_its_subject(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('"""How rows are counted."""\nrows = 1\n"""What is counted."""\n')
    assert [line for line, text in docstrings(tmp_path / "a.py") if HEADLESS.match(text)] == [1, 3]
    modules = [path for path in files() if path.suffix == ".py"]
    names = {path.relative_to(ROOT).as_posix(): path for path in modules}
    read = {name: path for name, path in names.items() if not name.startswith(NOT_YET)}
    assert len(read) > 300
    headless = [
        f"{name}:{line}: {text}"
        for name, path in read.items()
        for line, text in docstrings(path)
        if HEADLESS.match(text)
    ]
    assert not headless, "Name the subject: " + "\n".join(headless)


if __name__ == "__main__":
    counts = {name: len(hits) for name, hits in found().items()}
    EXCEPTIONS.write_text(json.dumps(counts, indent=0) + "\n", encoding="utf-8")
