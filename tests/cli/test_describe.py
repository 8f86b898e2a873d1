"""``pointstamp describe``: the flow of a file as text or drawn, without inputs and without a run.

One family, the command in this process: which stream gets the text, where a page lies, what mistakes get.
"""

from pathlib import Path

import pytest

from pointstamp.cli.main import main

FLOW = """
import pointstamp as ps

flow = ps.Dataflow("words")
words = flow.stream_input("words", "word string")
flow.output("counts", words.count("word"))
"""


@pytest.fixture
def flow(tmp_path: Path) -> str:
    path = tmp_path / "flow.py"
    path.write_text(FLOW)
    return str(path)


def test_a_flow_is_described_though_its_file_has_no_inputs(
    flow: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["describe", flow]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("flow 'words', times (epoch)\n")
    assert "'counts': word string, count long" in out
    assert "view 'counts':\n" in out
    assert "reads" not in out
    assert err == ""
    assert main(["describe", flow, "--operators"]) == 0
    assert "reads 'words'" in capsys.readouterr().out


def test_mermaid_prints_a_flowchart(flow: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", flow, "--mermaid"]) == 0
    assert capsys.readouterr().out.startswith("flowchart")


def test_html_writes_a_page_and_says_where(
    flow: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "flow.html"
    assert main(["describe", flow, "--html", str(page)]) == 0
    out, err = capsys.readouterr()
    assert "<title>flow words</title>" in page.read_text()
    assert (out, err) == ("", f"wrote the graph of flow 'words' to {page}\n")


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (None, [], "there is no such file"),
        ("", [], "has no flow"),
        ("flow = 3", [], "flow must be a pointstamp.Dataflow, not a int"),
        ("import nowhere", [], "cannot be run: ModuleNotFoundError: No module named 'nowhere' (line 1)"),
        (FLOW, ["--html", "/nowhere/at/all.html"], "cannot write the page to /nowhere/at/all.html"),
        (FLOW, ["--html", "x.html", "--mermaid"], "not allowed with argument --html"),
    ],
    ids=["no file", "no flow", "another flow", "no module", "no folder", "two forms"],
)
def test_a_mistake_gets_one_line_and_code_2(
    text: str | None, options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "flow.py"
    if text is not None:
        path.write_text(text)
    assert main(["describe", str(path), *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("pointstamp: ")
    assert err.count("\n") == 1
    assert said in err
