"""``pointstamp snapshots``: what a checkpoint holds is listed, and every file that is not whole is named.

One family, checkpoints of real queries, untouched and damaged in one place: only this finds a kind of file
that the command forgets to look at, because the damage would then pass unseen.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pointstamp as ps
from pointstamp.cli.main import main


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    flow = ps.Dataflow("words")
    flow.output("counts", flow.stream_input("words", "word string").group_by("word", running=True).count())
    (tmp_path / "in").mkdir()
    for generation in range(2):
        query = flow.start(
            words=ps.io.files(tmp_path / "in", in_order=True),
            checkpoint=str(tmp_path / "saved"),
            output=str(tmp_path / "out"),
            workers=2,
            options=ps.QueryOptions(snapshots=ps.SnapshotPolicy(inline_bytes_max=0)),
        )
        for number in range(2):
            place = tmp_path / "in" / f"{generation}{number}.parquet"
            pq.write_table(pa.table({"word": ["a", "b"]}), place)
            query.process_all_available()
            if (generation, number) == (1, 0):
                query.savepoint("before the move")
        query.stop()
    return tmp_path / "saved"


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_generations_snapshots_savepoints_and_ticks_are_listed(
    checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["snapshots", str(checkpoint)]) == 0
    said = lines(capsys)
    assert said[0].startswith("checkpoint of flow 'words', query ")
    assert "generations: 2" in said
    assert next(line.split()[:3] for line in said if "everything" in line) == ["0", "everything", "2"]
    assert "savepoints: 1" in said
    assert any("savepoint 'before the move'" in line for line in said)
    assert any(line.startswith("ticks retained: ") for line in said)
    assert said[-1].startswith("all ")
    assert said[-1].endswith(" files are whole; it continues after epoch 3")


@pytest.mark.parametrize("damage", ["altered", "torn", "gone"])
@pytest.mark.parametrize("kind", ["journal", "snapshots"])
def test_a_file_that_is_not_whole_is_named_and_the_code_is_1(
    kind: str, damage: str, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    victim = sorted((checkpoint / kind).iterdir())[2]
    content = victim.read_bytes()
    if damage == "gone":
        victim.unlink()
    else:
        victim.write_bytes(content[:-3] if damage == "torn" else content[:-1] + bytes([content[-1] ^ 1]))
    assert main(["snapshots", str(checkpoint)]) == 1
    said = lines(capsys)
    assert any(line.startswith("damaged: ") and victim.name in line for line in said)
    assert "files are damaged; " in said[-1]


def test_what_is_not_a_checkpoint_gets_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        assert main(["snapshots", str(path)]) == 2
        assert "is not a checkpoint: it holds no journal" in capsys.readouterr().err


def test_looking_changes_nothing(checkpoint: Path) -> None:
    before = {path: path.read_bytes() for path in checkpoint.rglob("*") if path.is_file()}
    assert main(["snapshots", "--all", str(checkpoint)]) == 0
    assert {path: path.read_bytes() for path in checkpoint.rglob("*") if path.is_file()} == before
