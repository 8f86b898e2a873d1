"""The command line says what it knows, ends with the right code, and prints nothing that was not asked for.

Families, and what only each can find:
- the command as a user starts it, in a process of its own: exit codes, which stream a line goes to, control
  codes in a pipe, a real terminal, an interrupt from the keyboard;
- ``main`` in this process with a tiny catalogue: that the exit code follows the verdicts, and what each
  option prints.
"""

import importlib.util
import json
import os
import pty
import re
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial

import pytest

import pointstamp
from pointstamp.cli.main import SUBCOMMANDS, main
from pointstamp.compiled import is_compiled
from pointstamp_models.catalogue.clocks import HoldsBackAnything
from pointstamp_models.exploring import report
from pointstamp_models.exploring.entry import Entry, Instance, Mutant
from pointstamp_models.spec.clocks import Clocks
from pointstamp_models.spec.multiset import chain

COMMAND = (sys.executable, "-m", "pointstamp.cli.main")
ESCAPE = "\x1b"
SECONDS_MAX = 300


def start(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, check=False, timeout=SECONDS_MAX
    )


def test_help_names_every_command_and_ends_well() -> None:
    done = start("--help")
    assert done.returncode == 0
    listed = done.stdout.partition("commands:")[2].partition("start here:")[0]
    commands = re.findall(r"^    (\w+)", listed, re.MULTILINE)
    assert commands[:3] == ["demo", "sql", "run"]
    assert len(commands) == len(SUBCOMMANDS)
    assert done.stderr == ""


def test_help_of_check_models_names_its_options() -> None:
    done = start("check", "models", "--help")
    assert done.returncode == 0
    assert all(option in done.stdout for option in ("--model", "--long", "--json", "--verbose"))


def test_the_version_is_that_of_the_package() -> None:
    done = start("--version")
    core = "compiled" if is_compiled() else "Python"
    told = f"pointstamp {pointstamp.__version__} (core: {core}, kernels: compiled)\n"
    assert (done.returncode, done.stdout) == (0, told)


@pytest.mark.parametrize(
    ("arguments", "known"),
    [
        (["frobnicate"], "known: demo, sql, run"),
        (["--frobnicate"], "known: --help, --version"),
        (["check", "everything"], "known: models, explain"),
        (["check", "models", "--frobnicate"], "known: --help, --json, --long, --model"),
        (["check", "models", "--lon"], "known: --help, --json, --long, --model"),
        (["check", "models", "clocks"], "known: --help, --json, --long, --model"),
        (["check", "models", "--model"], "see pointstamp check models --help"),
        (["check", "models", "--model", "watches"], "known: clocks, exchange"),
        (["check", "models", "--processes", "0"], "must be a number of at least 1, got '0'"),
    ],
    ids=" ".join,
)
def test_what_is_unknown_gets_one_line_that_says_what_is_known_and_code_2(
    arguments: list[str], known: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(arguments)
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.startswith("pointstamp: ")
    assert err.count("\n") == 1
    assert known in err


def test_the_process_ends_with_code_2_too() -> None:
    done = start("frobnicate")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("pointstamp: unknown command 'frobnicate'; known: demo, sql, run")


@pytest.mark.parametrize("arguments", [[], ["check"]], ids=["pointstamp", "check"])
def test_without_a_command_the_help_is_shown_and_the_code_is_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "COMMAND" in err


def test_help_starts_without_the_models_and_without_rich() -> None:
    script = (
        "import sys; from pointstamp.cli.main import main; main(['--help']); "
        "print([name for name in ('rich', 'pointstamp_models.catalogue') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=SECONDS_MAX
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_models_and_rich_are_what_the_command_would_load() -> None:
    for name in ("rich", "pointstamp_models.catalogue"):
        assert importlib.util.find_spec(name) is not None


def test_explain_shows_the_worked_example_and_that_it_is_explained() -> None:
    done = start("check", "explain")
    assert done.returncode == 0
    assert "F-RECOVER" in done.stdout
    assert "explained" in done.stdout


def test_a_pipe_gets_a_plain_table_on_one_stream_and_plain_progress_on_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # some build servers set it, and a pipe is a pipe nevertheless
    done = start("check", "models", "--model", "propagation")
    assert done.returncode == 0, done.stdout + done.stderr
    assert ESCAPE not in done.stdout + done.stderr
    header, *lines = done.stdout.splitlines()
    assert re.split(r" {2,}", header) == list(report.COLUMNS)
    assert all(line.startswith("propagation ") for line in lines[: lines.index("")])
    assert "All properties hold, and all mutants are rejected" in done.stdout
    assert "propagation: mutant " in done.stderr


def test_a_terminal_gets_a_drawn_table() -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "160"}
    environment.pop("NO_COLOR", None)
    with subprocess.Popen(
        [*COMMAND, "check", "models", "--model", "propagation"], stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        shown = b""
        while chunk := _read(ours):
            shown += chunk
    os.close(ours)
    assert process.returncode == 0
    assert ESCAPE.encode() in shown
    assert "┃" in shown.decode()
    assert "judging" in shown.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # Linux says so when the other side of a terminal has closed
        return b""


def test_an_interrupt_ends_the_run_and_its_processes_with_code_130() -> None:
    with subprocess.Popen(
        [*COMMAND, "check", "models", "--model", "exchange"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline()  # the first task has finished, so the processes are at work
        os.killpg(process.pid, signal.SIGINT)
        # Ends only when no process holds the streams any more.
        out, err = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, out) == (130, "")
    assert err.endswith("pointstamp: interrupted\n")
    assert "Traceback" not in err


A = ((0, 1),)
HOLDS = Instance("holds", partial(Clocks, chain("ab"), A), states=323, transitions=798)
KILLED = Mutant("M1.2", "holds back anything", partial(HoldsBackAnything, chain("ab"), A), "Inv1")
SURVIVOR = Mutant("M1.9", "no change at all", partial(Clocks, chain("ab"), A), "Inv1")


def check_models(
    monkeypatch: pytest.MonkeyPatch,
    instances: tuple[Instance, ...],
    mutants: tuple[Mutant, ...],
    *options: str,
) -> int:
    tiny = Entry("tiny", "A tiny catalogue", instances, mutants)
    monkeypatch.setattr("pointstamp_models.catalogue.ENTRIES", (tiny,))
    return main(["check", "models", *options])


def test_the_code_is_0_only_if_all_is_as_it_should_be(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check_models(monkeypatch, (HOLDS,), (KILLED,)) == 0
    assert check_models(monkeypatch, (replace(HOLDS, states=324),), (KILLED,)) == 1
    assert check_models(monkeypatch, (HOLDS,), (KILLED, SURVIVOR)) == 1
    assert check_models(monkeypatch, (Instance("raises", partial(int, "x")),), ()) == 1  # type: ignore[arg-type]
    out, _ = capsys.readouterr()
    assert "reaches 323 states, but 324 are published" in out
    assert "tiny, mutant M1.9 (no change at all): survives: Inv1 is not broken in all 323 states" in out
    assert "raised ValueError" in out


def test_json_is_one_document_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check_models(monkeypatch, (HOLDS,), (KILLED, SURVIVOR), "--json") == 1
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert err == ""
    assert document["right"] is False
    (model,) = document["models"]
    assert (model["name"], model["mutants_killed"], model["mutants_expected"]) == ("tiny", 1, 2)
    (instance,) = model["instances"]
    assert (instance["states"], instance["published_states"], instance["right"]) == (323, 323, True)
    killed, survivor = model["mutants"]
    assert killed["violation"]["property"] == killed["breaks"] == "Inv1"
    assert killed["violation"]["steps"] == len(killed["violation"]["trace"]) - 1 == 3
    assert (survivor["violation"], survivor["right"]) == (None, False)


def test_verbose_shows_the_trace_of_each_mutant_and_the_default_does_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check_models(monkeypatch, (HOLDS,), (KILLED,))
    assert "send_upd" not in capsys.readouterr().out
    check_models(monkeypatch, (HOLDS,), (KILLED,), "--verbose")
    out, _ = capsys.readouterr()
    assert "tiny M1.2: holds back anything: Inv1 is broken after 3 steps" in out
    assert "send_upd" in out


def test_what_breaks_is_shown_with_its_shortest_trace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = Instance("broken", partial(HoldsBackAnything, chain("ab"), A))
    assert check_models(monkeypatch, (broken,), ()) == 1
    out, _ = capsys.readouterr()
    assert "WRONG: tiny, instance broken: " in out
    assert "    0 init\n" in out
