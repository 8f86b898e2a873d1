"""Every ``pytest.raises`` of the tests names the decisive words of the error that it expects.

A test that accepts every error of a type passes when another error of that type is raised. Only exceptions
without a text need no ``match``: an interrupt, and the deaths that tests raise themselves.
"""

import ast
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
WITHOUT_TEXT: Final = ("KeyboardInterrupt", "Died", "_Died", "SumTooLarge")
PER_CASE: Final = ("kind",)
"""Types that a table of cases names: one test of tests/driver, for an interrupt and a lost driver."""


def raises_without_match(text: str) -> list[str]:
    """What each ``pytest.raises`` without ``match`` expects."""
    calls = [each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Call)]
    return [
        ast.unparse(each.args[0])
        for each in calls
        if ast.unparse(each.func) == "pytest.raises" and all(each.arg != "match" for each in each.keywords)
    ]


def test_the_law_finds_a_raises_without_words() -> None:
    text = 'pytest.raises(ValueError)\npytest.raises(KeyError, match="a")\nwith pytest.raises(OSError): f()'
    assert raises_without_match(text) == ["ValueError", "OSError"]


def test_every_expected_error_is_expected_with_its_words() -> None:
    files = [*(ROOT / "tests").rglob("test_*.py"), *(ROOT / "models" / "tests").rglob("test_*.py")]
    assert len(files) > 300
    missing = [
        f"{path.relative_to(ROOT)}: {expected}"
        for path in files
        for expected in raises_without_match(path.read_text(encoding="utf-8"))
        if expected not in (*WITHOUT_TEXT, *PER_CASE)
    ]
    assert not missing, missing
