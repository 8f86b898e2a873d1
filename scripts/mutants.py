"""Plant single mistakes in modules, run the tests that execute them, and report the mistakes no test finds.

    .venv/bin/python scripts/mutants.py --base HEAD~20                 # modules that changed since then
    .venv/bin/python scripts/mutants.py --module src/pointstamp/graphs/page_rank.py --limit 50

A *mutant* is the source with one small change: a comparison that includes or excludes its limit, ``and`` for
``or``, a removed ``not``, ``+`` for ``-``, ``min`` for ``max``, a number or a slice that is off by one, a
statement that is dropped. It is *killed* by a test that fails, and *survives* if all pass.

The tests of a module are those of its package's folder below ``tests``. They run once, unchanged, to find out
which test executes which line and how long it takes; a mutant then runs the tests of its line, quick ones
first, until one fails. All of this happens in a copy of the tree, with the core as Python, so the tree itself
is never changed. Which mutants are tried depends on the seed alone. Results are kept in ``.mutants``: a run
that was stopped continues, and mutants of modules that have not changed are not tried again.

Why not mutmut or cosmic-ray: the one rewrites functions into trampolines, which the compiled core's import
hook and tests that replace methods do not see through; the other changes files in place.
"""

import argparse
import ast
import difflib
import hashlib
import importlib.util
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

MARKS: Final = "not spark and not long and not browser and not kafka"
"""Which tests are run: those that need no server and no minutes."""
_COMPARED: Final = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
}
_CALCULATED: Final = {
    ast.Add: (r"\+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: (r"\*", "+"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: (r"\|", "&"),
}
_CALLED: Final = {
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "any": "all",
    "all": "any",
    "least": "greatest",
    "greatest": "least",
}


@dataclass(frozen=True)
class Mutant:
    """One change of a file: the text between two offsets is replaced."""

    file: str
    line: int
    what: str
    start: int
    end: int
    text: str

    def applied(self, source: str) -> str:
        """The source with the change."""
        return source[: self.start] + self.text + source[self.end :]

    def key(self, source: str) -> str:
        """A name that is the same as long as the file is."""
        told = f"{self.file}\0{source}\0{self.start}\0{self.end}\0{self.text}"
        return hashlib.sha256(told.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: killed, survived, timed out, or not covered by any test."""

    key: str
    file: str
    line: int
    what: str
    outcome: str
    tests: int
    seconds: float
    diff: str


# Which mistakes there are.


def mutants_of(file: str, source: str) -> list[Mutant]:
    """All mutants of a module, in the order of its text; each can be parsed and differs from the source.

    >>> [each.what for each in mutants_of("m.py", "def f(a): return a < 1 and not a")]
    ["'<' becomes '<='", '1 becomes 2', "'and' becomes 'or'", "'not' is removed"]
    """
    finder = _Finder(file, source)
    finder.visit(ast.parse(source))
    found = sorted(dict.fromkeys(finder.found), key=lambda each: (each.start, each.end, each.what))
    return [each for each in found if _is_other(source, each)]


def _is_other(source: str, mutant: Mutant) -> bool:
    try:
        return ast.dump(ast.parse(mutant.applied(source))) != ast.dump(ast.parse(source))
    except SyntaxError:
        return False


class _Finder(ast.NodeVisitor):
    """Walks through a module, past what only types, messages and asserts say."""

    def __init__(self, file: str, source: str) -> None:
        self.found: list[Mutant] = []
        self._file = file
        self._source = source
        lines = source.encode().splitlines(keepends=True)
        self._lines = lines
        self._starts = [0]
        for line in lines:
            self._starts.append(self._starts[-1] + len(line.decode()))
        self._depth = 0
        self._is_initial = False

    def _offset(self, line: int, column: int) -> int:
        return self._starts[line - 1] + len(self._lines[line - 1][:column].decode())

    def _span(self, node: ast.AST) -> tuple[int, int]:
        at: Any = node
        return self._offset(at.lineno, at.col_offset), self._offset(at.end_lineno, at.end_col_offset)

    def _add(self, start: int, end: int, text: str, what: str) -> None:
        line = self._source.count("\n", 0, start) + 1
        self.found.append(Mutant(self._file, line, what, start, end, text))

    def _replace_between(self, left: ast.AST, right: ast.AST, token: str, text: str) -> None:
        """Replace the operator that stands between two operands."""
        start, end = self._span(left)[1], self._span(right)[0]
        word = rf"\b{token}\b" if token[0].isalpha() else token
        if (found := re.search(word, self._source[start:end])) is not None:
            at = start + found.start(), start + found.end()
            self._add(*at, text, f"'{found[0]}' becomes '{text}'")

    # What is not changed: what types, errors and asserts say, and sizes at the top of a module.

    def visit_Assert(self, node: ast.Assert) -> None:
        """An assert is a check itself."""

    def visit_Raise(self, node: ast.Raise) -> None:
        """What an error says is quoted by tests of messages."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Texts are not changed."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None and self._depth:
            self._drop(node)
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        if self._depth:
            self._drop(node)
            self.visit(node.value)
            for target in node.targets:
                self.visit(target)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        before, self._is_initial = self._is_initial, node.name == "__init__"
        self._depth += 1
        for each in [*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body]:
            self.visit(each)
        self._depth -= 1
        self._is_initial = before

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for each in node.body:
            self.visit(each)

    def visit_If(self, node: ast.If) -> None:
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            start, end = self._span(node.test)
            self._add(start, end, f"not ({self._source[start:end]})", "the condition is negated")
            self.generic_visit(node)

    # What is changed.

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for left, operator, right in zip(operands, node.ops, operands[1:], strict=False):
            self._replace_between(left, right, *_COMPARED[type(operator)])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in _CALCULATED and not _is_text(node.left) and not _is_text(node.right):
            self._replace_between(node.left, node.right, *_CALCULATED[type(node.op)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._replace_between(left, right, old, new)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        said = {ast.Not: "not", ast.Invert: "~", ast.USub: "-"}.get(type(node.op))
        if said is not None:
            start, operand = self._span(node)[0], self._span(node.operand)[0]
            self._add(start, operand, "", f"'{said}' is removed")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        start, end = self._span(node)
        if isinstance(node.value, bool):
            self._add(start, end, str(not node.value), f"{node.value} becomes {not node.value}")
        elif isinstance(node.value, int):
            self._add(start, end, str(node.value + 1), f"{node.value} becomes {node.value + 1}")

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
        if name in _CALLED:
            end = self._span(node.func)[1]
            self._add(end - len(name), end, _CALLED[name], f"'{name}' becomes '{_CALLED[name]}'")
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg != "strict":  # of zip, which is an assertion
            self.generic_visit(node)

    def visit_Slice(self, node: ast.Slice) -> None:
        for bound in (node.lower, node.upper):
            if bound is not None and not isinstance(bound, ast.Constant):
                start, end = self._span(bound)
                self._add(start, end, f"({self._source[start:end]}) + 1", "a slice is off by one")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._drop(node)
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._drop(node)
        self.generic_visit(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self._drop(node)

    def visit_Break(self, node: ast.Break) -> None:
        self._drop(node)

    def _drop(self, node: ast.stmt) -> None:
        """Drop a statement that changes something; without a variable or an attribute nothing would run."""
        if self._is_initial:
            return
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        is_local = any(isinstance(each, ast.Name | ast.Tuple) for each in targets)
        if not is_local or isinstance(node, ast.AugAssign):
            self._add(*self._span(node), "pass", "the statement is dropped")


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


# Where they are tried.


class Workspace:
    """A copy of the tree, in which tests run with one mutant at a time."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root = root
        self.folder = folder
        listed = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
        for name in filter(None, listed):
            if (root / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, folder / name)
        (folder / f"{_PLUGIN}.py").write_text(_PLUGIN_SOURCE)
        places = [folder, folder / "src", folder / "models" / "src", folder / "tests"]
        self._around = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, places)),
            "PYTHONDONTWRITEBYTECODE": "1",  # two mutants of one length within a second would share bytecode
            "POINTSTAMP_CORE": "python",
            "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / ".hypothesis"),
        }

    def run(self, arguments: Sequence[str], seconds: float, **around: str) -> int | None:
        """The exit code of pytest, or None if it took too long."""
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments]
        if importlib.util.find_spec("hypothesis"):
            command.append("--hypothesis-seed=0")
        with subprocess.Popen(
            command,
            cwd=self.folder,
            env={**self._around, **around},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            try:
                return process.wait(seconds)
            except subprocess.TimeoutExpired:
                return None
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, 9)

    def measure(self, tests: Sequence[str], modules: Sequence[str], seconds: float) -> dict[str, Any]:
        """Which tests execute which lines of modules, how long each takes, and which fail as it is."""
        told = self.folder / "measured.json"
        asked = json.dumps({"modules": [str(self.folder / each) for each in modules], "told": str(told)})
        code = self.run(["--maxfail=100000", "-m", MARKS, "-p", _PLUGIN, *tests], seconds, MUTANTS=asked)
        if code is None or not told.exists():
            raise SystemExit(
                f"mutants: the tests {' '.join(tests)} did not end within {seconds:.0f} s without a mutant. "
                "Name fewer tests with --tests, or allow more time with --measure-seconds."
            )
        measured: dict[str, Any] = json.loads(told.read_text())
        return measured

    def try_mutant(self, mutant: Mutant, source: str, tests: Sequence[str], seconds: float) -> str:
        """Killed, survived or timed out."""
        file = self.folder / mutant.file
        file.write_text(mutant.applied(source))
        try:
            code = self.run(tests, seconds)
        finally:
            file.write_text(source)
        return "timed out" if code is None else "survived" if code == 0 else "killed"


_PLUGIN: Final = "pytest_of_mutants"
_PLUGIN_SOURCE: Final = """
import json, os, time
from pathlib import Path
import coverage, pytest

ASKED = json.loads(os.environ["MUTANTS"])
SECONDS, FAILED = {}, []
TRACED = coverage.Coverage(data_file=None, include=ASKED["modules"], config_file=False)
TRACED.start()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    TRACED.switch_context(item.nodeid)
    begun = time.monotonic()
    try:
        return (yield)
    finally:
        SECONDS[item.nodeid] = time.monotonic() - begun
        TRACED.switch_context("")


def pytest_runtest_logreport(report):
    if report.failed:
        FAILED.append(report.nodeid)


def pytest_sessionfinish(session):
    TRACED.stop()
    data = TRACED.get_data()
    found = {file: data.contexts_by_lineno(file) for file in data.measured_files()}
    lines = {
        file: {line: [test for test in tests if test] for line, tests in by_line.items()}
        for file, by_line in found.items()
    }
    told = {"lines": lines, "seconds": SECONDS, "failed": FAILED}
    Path(ASKED["told"]).write_text(json.dumps(told))
"""


def tests_of(root: Path, module: str) -> list[str]:
    """Where the tests of a module are: the folder of its package below ``tests``, and its own examples."""
    parts = Path(module).parts
    package = parts[2] if len(parts) > 3 else ""
    folder = f"tests/{package}" if package and (root / "tests" / package).is_dir() else "tests"
    return [folder, module]


# What is tried, and what is told.


def changed_modules(root: Path, base: str) -> list[str]:
    """The modules below ``src`` that differ from a commit."""
    names = _git(root, "diff", "--name-only", "--diff-filter=d", base, "--", "src").splitlines()
    return [name for name in names if name.endswith(".py") and not name.endswith("__init__.py")]


def day_before(root: Path) -> str:
    """The newest commit that is a day old."""
    found = _git(root, "rev-list", "-1", "--before=24 hours ago", "HEAD").strip()
    if not found:
        raise SystemExit(
            "mutants: no commit is older than a day. Name one with --base, or modules with --module."
        )
    return found


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def chosen(root: Path, modules: Sequence[str], seed: int, limit: int) -> Iterator[tuple[Mutant, str]]:
    """Some mutants of modules, with the sources of these; the same for the same seed."""
    sources = {module: (root / module).read_text() for module in modules}
    found = [each for module in sorted(sources) for each in mutants_of(module, sources[module])]
    random.Random(seed).shuffle(found)  # noqa: S311 - it chooses what is tried
    return ((each, sources[each.file]) for each in found[:limit])


def try_all(given: argparse.Namespace) -> list[Outcome]:
    """Try the mutants that are asked for, as far as time allows."""
    root, until = Path(given.root).resolve(), time.monotonic() + given.seconds
    modules = given.module or changed_modules(root, given.base or day_before(root))
    kept = root / ".mutants" / "results.jsonl"
    known = {} if given.fresh else _read(kept)
    wanted = [
        (each, source, each.key(source)) for each, source in chosen(root, modules, given.seed, given.limit)
    ]
    outcomes = [known[key] for _, _, key in wanted if key in known]
    left = [each for each in wanted if each[2] not in known]
    print(
        f"{len(wanted)} mutants of {len(modules)} modules, {len(outcomes)} of them tried before", flush=True
    )
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        space = Workspace(root, Path(folder)) if left else None
        measured: dict[tuple[str, ...], dict[str, Any]] = {}
        for mutant, source, key in sorted(left, key=lambda each: tests_of(root, each[0].file)[0]):
            if space is None or time.monotonic() > until:
                break
            tests = tuple(given.tests or tests_of(root, mutant.file)[:1])
            if tests not in measured:
                same = [m.file for m, _, _ in left if given.tests or tests_of(root, m.file)[0] == tests[0]]
                examples = [] if given.tests else sorted(set(same))
                print(f"which lines do {' '.join(tests)} execute?", flush=True)
                measured[tests] = space.measure([*tests, *examples], sorted(set(same)), given.measure_seconds)
            outcomes.append(_tried(space, mutant, source, key, measured[tests], given))
            _keep(kept, outcomes[-1])
            print(f"{outcomes[-1].outcome}: {mutant.file}:{mutant.line} {mutant.what}", flush=True)
    return outcomes


def _tried(
    space: Workspace,
    mutant: Mutant,
    source: str,
    key: str,
    measured: dict[str, Any],
    given: argparse.Namespace,
) -> Outcome:
    lines = measured["lines"].get(str(space.folder / mutant.file), {})
    failed, lasts = set(measured["failed"]), measured["seconds"]
    stop = source.count("\n", 0, mutant.end) + 1
    tests = {test for line in range(mutant.line, stop + 1) for test in lines.get(str(line), ())} - failed
    run: list[str] = []
    total = 0.0
    for test in sorted(tests, key=lambda each: (lasts.get(each, 0), each)):
        total += lasts.get(test, 0)
        if run and total > given.mutant_seconds:
            break
        run.append(test)
    begun = time.monotonic()
    limit = given.timeout + 5 * total
    outcome = space.try_mutant(mutant, source, run, limit) if run else "not covered"
    diff = difflib.unified_diff(
        source.splitlines(), mutant.applied(source).splitlines(), mutant.file, mutant.file, n=1, lineterm=""
    )
    seconds = round(time.monotonic() - begun, 1)
    told = "\n".join(list(diff)[2:])
    return Outcome(key, mutant.file, mutant.line, mutant.what, outcome, len(run), seconds, told)


def _read(file: Path) -> dict[str, Outcome]:
    rows = file.read_text().splitlines() if file.exists() else []
    return {row["key"]: Outcome(**row) for row in map(json.loads, rows)}


def _keep(file: Path, outcome: Outcome) -> None:
    file.parent.mkdir(exist_ok=True)
    with file.open("a") as kept:
        kept.write(json.dumps(asdict(outcome)) + "\n")


def report(outcomes: Sequence[Outcome]) -> str:
    """What was found, survivors with their change."""
    counts = Counter(each.outcome for each in outcomes)
    words = ("killed", "timed out", "survived", "not covered")
    lines = [", ".join(f"{counts[word]} {word}" for word in words) + f", of {len(outcomes)} mutants"]
    for each in sorted(outcomes, key=lambda each: (each.file, each.line)):
        if each.outcome in ("survived", "not covered"):
            lines.append(f"\n{each.file}:{each.line}: {each.what}; {each.outcome}, {each.tests} tests")
            lines.append(each.diff)
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Try mutants and report them; 0 also if some survive, for a person has to read which."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--base", help="try the modules that changed since this commit (default: a day ago)")
    parser.add_argument("--module", action="append", help="try this module instead; may be repeated")
    parser.add_argument("--tests", action="append", help="run these tests instead of those of the package")
    parser.add_argument("--limit", type=int, default=200, help="try at most so many mutants (default: 200)")
    parser.add_argument("--seed", type=int, default=0, help="which ones (default: 0)")
    parser.add_argument("--seconds", type=float, default=3600, help="stop after so long (default: 3600)")
    parser.add_argument(
        "--mutant-seconds",
        type=float,
        default=60,
        help="tests of one mutant, as they take unchanged (default: 60)",
    )
    parser.add_argument(
        "--timeout", type=float, default=60, help="seconds added to five times that (default: 60)"
    )
    parser.add_argument(
        "--measure-seconds",
        type=float,
        default=3600,
        help="most time for the tests unchanged (default: 3600)",
    )
    parser.add_argument("--fresh", action="store_true", help="try those again that were tried before")
    parser.add_argument("--json", help="also write the report to this file")
    parser.add_argument("--root", default=str(Path(__file__).parent.parent), help="the repository")
    given = parser.parse_args(arguments)
    outcomes = try_all(given)
    print(report(outcomes))
    if given.json is not None:
        Path(given.json).write_text(json.dumps([asdict(each) for each in outcomes], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
