"""Every number that chooses between two ways is on the page of thresholds, and every other one is known here.

Numbers are the constants of modules, and the enumerations of kernels, in the packages that process rows and
progress. Each is a threshold, which the page must list with its value, or one of ``OTHERS``: a new one fails
until somebody has said which. So a second way of doing a thing does not come in unseen.
"""

import ast
import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
SOURCE: Final = ROOT / "src" / "pointstamp"
PAGE: Final = ROOT / "docs" / "explanation" / "thresholds.md"
PACKAGES: Final = (
    *("arrangement", "arrow", "expressions", "graphs", "incremental", "operators", "order", "progress"),
    *("reduce", "state", "topology", "worker"),
)
THRESHOLDS_MAX: Final = 60

OTHERS: Final = {
    # What a type, a format or a definition says.
    "arrangement/runs.py": {"_COLUMN_BYTES_MAX", "_SLICE_ROWS_MAX"},
    "arrow/ddl.py": {"_DECIMAL_DIGITS_MAX"},
    "arrow/epoch_column.py": {"EPOCH_MAX", "LATE_PORT"},
    "arrow/hash_table.py": {"UNKNOWN"},
    "arrow/row_hashing.py": {"OTHER", "_BASE"},
    "arrow/sums.pyx": {"LIMB_BITS", "LIMBS_MAX"},
    "arrow/columns.pyx": {"FIXED", "BITS", "NARROW", "WIDE", "SIGNED", "UNSIGNED", "FLOATING", "TEXTUAL"},
    "expressions/arithmetic.py": {
        *("_NEAR_HALF", "_EXACT_POWERS", "_DIGITS_OF_ARROW", "_DIGITS_OF_128", "_MICROS_OF_DAY"),
    },
    "expressions/casts.py": {"_INTEGER_DIGITS"},
    "expressions/date_arithmetic.py": {"_MICROS_OF_DAY", "_SECOND"},
    "expressions/date_patterns.py": {"_CENTURY", "_SECOND"},
    "expressions/dates.py": {"_WHOLE_MINUTES"},
    "expressions/decimals.py": {"_DIGITS_EXACT", "_DIGITS_OF_ARROW"},
    "expressions/hash_functions.py": {"_SEED", "_M32", "_M64", "_DIGITS_OF_LONG"},
    "expressions/json_reading.py": {"_DEPTH_MAX"},
    "expressions/nested.py": {"_SIZE_MAX"},
    "expressions/numbers.py": {"_M64", "_LONG_MAX"},
    "expressions/strings.py": {"_GROUPS_MAX"},
    "expressions/text.py": {"_INT_MAX", "_TEXT_MAX"},
    "expressions/type_rules.py": {"DECIMAL_DIGITS_MAX"},
    "expressions/value_text.py": {"MICROS_OF_DAY"},
    "expressions/zones.py": {"_MICROS_OF_DAY"},
    "graphs/arrays/numbering.py": {"_STEP", "_ROOM_MIN", "_NUMBER_MAX"},
    "graphs/arrays/slot_arrays.py": {"_DIGIT_BITS", "_NUMBER_BITS"},
    "graphs/core_numbers.py": {"SHELL_BITS"},
    "graphs/frames/graphframe.py": {"TOLERANCE_OF_ITERATIONS"},
    "graphs/growing_components.py": {"_LAST_ROUND"},
    "graphs/label_propagation.py": {"_LAST_ROUND"},
    "graphs/page_rank.py": {"_LAST_ROUND", "NONE", "UNITS_PER_TOLERANCE", "RANK_MAX"},
    "graphs/strong_components.py": {"_ID_MAX"},
    "incremental/deletion_check.py": {"_BITS_MAX"},
    "incremental/exact_sums.py": {"_WEIGHT_MAX", "_BITS", "_SUM_MAX", "_FLOAT_BITS"},
    "incremental/group_values.py": {"_MORE_DIGITS", "_DIGITS_MAX"},
    "incremental/joins.py": {"SHARDS"},
    "reduce/accumulators.py": {"_LIMB_BITS", "_LOWEST_LIMB_MAX"},
    "topology/levels.py": {"_WHOLE_GRAPH"},
    "worker/lineage.py": {"_PR_SET_PDEATHSIG", "_LOOK_SECONDS"},
    # How much is shown, tried, or done at once; how large something is at first.
    "arrangement/arrangement.py": {"PLACES_MAX", "_LETTERS_MAX"},
    "arrangement/run.py": {"_BLOCK_ROWS"},
    "arrangement/spill_file.py": {"_SLICE_ROWS", "_BLOCK_BUCKETS", "_ALIGNMENT"},
    "arrow/runs.pyx": {"WORDS_MAX", "PART_BITS_MAX", "FIRST_BITS_MAX", "AHEAD"},
    "arrow/schema.py": {"_WARNED_MAX"},
    "arrow/slots.pyx": {"PLACES_MIN", "AHEAD"},
    "graphs/arrays/vertices.py": {"_NONE", "_ROOM_MIN", "_BLOCK_IDS", "_ID_MIN", "_ID_MAX", "_PLACES_MIN"},
    "graphs/gathering.py": {"_ROOM_MIN"},
    "graphs/search_state.py": {"NOBODY", "_ROOM_MIN"},
    "graphs/triangle_counts.py": {"_CANDIDATES_MAX", "_PAIRS_MAX"},
    "graphs/union_find.py": {"_ROOM_MIN", "_NONE", "_BLOCK"},
    "graphs/weak_components.py": {"_ROOM_MIN"},
    "incremental/iterate.py": {"_SHOWN_ROWS_MAX", "_REMEMBERED_MAX", "_COPIES_MAX"},
    "reduce/reductions.py": {"_SAVED_ROWS_MAX"},
    "state/memory_budget.py": {"_PIECES_MIN", "_PIECE_BYTES_MAX"},
    "topology/graph.py": {"TRIED_TIMES_MAX"},
    "worker/instance.py": {"_SAMPLE_ROWS"},
    "worker/routes.py": {"_SAMPLE_ROWS"},
}


def numbers_of(file: Path) -> dict[str, float]:
    """The constants of a module that are numbers, as its text gives them."""
    if file.suffix != ".py":
        return numbers_of_kernel(file.read_text())
    found = {}
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and target.id.isupper() and node.value is not None:
                value = number_in(ast.unparse(node.value))
                if value is not None:
                    found[target.id] = value
    return found


def numbers_of_kernel(text: str) -> dict[str, float]:
    """The names of all enumerations, with their numbers, 0 where none is given."""
    found = {}
    for body in re.findall(r"^cdef enum[^\n]*:\n((?:    .*\n|\n)+)", text, re.MULTILINE):
        for name, value in re.findall(r"^    ([A-Z][A-Z_]*)(?: = (.*))?$", body, re.MULTILINE):
            found[name] = number_in(value) or 0
    return found


def number_in(text: str) -> float | None:
    """The value of an expression of literals alone."""
    try:
        value = eval(text, {"__builtins__": {}})  # noqa: S307 - a part of our own source
    except Exception:
        return None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def numbers() -> dict[tuple[str, str], float]:
    found = {}
    for package in PACKAGES:
        for file in sorted((SOURCE / package).rglob("*.p[yx]*")):
            if file.suffix in (".py", ".pyx", ".pxd"):
                for name, value in numbers_of(file).items():
                    found[file.relative_to(SOURCE).as_posix(), name] = value
    return found


def listed() -> dict[tuple[str, str], float]:
    rows = re.findall(r"^\| `([^`]+)`: `(\w+)` ([\d,]+) \|", PAGE.read_text(), re.MULTILINE)
    return {(module, name): int(value.replace(",", "")) for module, name, value in rows}


def test_every_threshold_is_on_the_page_with_its_value() -> None:
    others = {(module, name) for module, names in OTHERS.items() for name in names}
    found = numbers()
    assert {place for place in found if place not in others} == set(listed())
    assert {place: found[place] for place in listed()} == listed()
    assert others <= set(found), "what is gone need not be named"


def test_thresholds_are_few() -> None:
    assert 0 < len(listed()) < THRESHOLDS_MAX


def test_numbers_are_found_in_modules_and_kernels(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("_MANY: Final = 1 << 4\nNAME = 'a'\nFLAG = True\n_few = 3\n")
    assert numbers_of(module) == {"_MANY": 16}
    assert numbers_of_kernel("cdef enum:\n    A = 3\n    # why\n    B_C\n\nx = 1\n") == {"A": 3, "B_C": 0}
