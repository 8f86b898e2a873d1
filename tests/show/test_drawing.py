"""Flows as Mermaid charts and as HTML pages.

- *Mermaid*: lines that must be there, and over random plans, with names that mean harm, the shape of every
  line; only these find a name that ends its label.
- *page*: it loads nothing from elsewhere, and no name can end its script. That Chromium draws it is a test
  in tests/dashboard/test_page.py.
"""

import re

import pytest
from hypothesis import given

from pointstamp.flow.plan import NodeKind, Plan
from pointstamp.show.describe import one_line
from pointstamp.show.mermaid import escaped, mermaid, page
from support.plans import HARMFUL_NAMES, plans, random_plan

# Mermaid.

LABEL = r'"[^"`<>\[\]{}|]*(<br/>[^"`<>\[\]{}|]*)*"'
LINES = (
    r"flowchart LR",
    r"accTitle: [\w ]+",
    r"accDescr: .*",
    rf"subgraph l\d+_\d+\[{LABEL}\]",
    r"direction LR",
    r"end",
    rf"n\d+(\(\[|\(|\[|\{{\{{){LABEL}(\]\)|\)|\]|\}}\}})",
    rf"n\d+ (-->|-\.-)(\|{LABEL}\|)? n\d+",
)


@given(plans())
def test_every_line_of_mermaid_has_a_known_shape_whatever_the_names(plan: Plan) -> None:
    for line in mermaid(plan).splitlines():
        assert any(re.fullmatch(shape, line.strip()) for shape in LINES), line


@given(plans())
def test_mermaid_has_every_node_every_edge_and_a_closed_subgraph_for_every_loop(plan: Plan) -> None:
    lines = [line.strip() for line in mermaid(plan).splitlines()]
    loops = {node.scope[:depth] for node in plan.nodes for depth in range(1, len(node.scope) + 1)}
    opened = [line.split("[")[0] for line in lines if line.startswith("subgraph")]
    assert len(opened) == len(set(opened)) == len(loops) == lines.count("end")
    for node in plan.nodes:
        assert sum(re.match(rf"n{node.index}[\[({{]", line) is not None for line in lines) == 1
        for port in node.inputs:
            assert port.source is not None
            ends = (port.source.operator, node.index)
            if node.kind is NodeKind.FEEDBACK:
                ends = (ends[1], ends[0])
            assert any(re.fullmatch(rf"n{ends[0]} -.*- ?>?.* n{ends[1]}", line) for line in lines)


@pytest.mark.parametrize("name", [*HARMFUL_NAMES, "_x_", "- item", "a-b.c_d+e"])
def test_an_escaped_name_says_the_same_when_its_codes_are_read(name: str) -> None:
    read = re.sub(r"#(\d+);", lambda code: chr(int(code[1])), escaped(name))
    assert read == one_line(name)


def test_words_with_harmless_marks_stay_readable() -> None:
    assert escaped("lowest_label v1.2 (by src-id)") == "lowest_label v1.2 (by src-id)"


def test_the_same_plan_is_drawn_the_same() -> None:
    assert page(random_plan(7)) == page(random_plan(7))
    assert mermaid(random_plan(7)) == mermaid(random_plan(7))


def test_a_flow_with_no_node_has_a_chart() -> None:
    assert mermaid(Plan("")).startswith("flowchart LR\n    accTitle: a flow\n")


# The page.


@given(plans())
def test_no_name_ends_the_script_and_the_page_loads_nothing(plan: Plan) -> None:
    text = page(plan)
    assert text.count("<script") == text.count("</script>") == 1
    assert not re.search(r"\b(?:src|href)=|@import|^import |\bfetch\(", text, re.MULTILINE)
