"""What turns docs/ into a site: mkdocs calls these functions when `make docs` builds it.

The README, the changelog and the page on contributing stay where a repository has them, and are pages of the
site, too. The reference of the Python API has an entry for every public name, taken from the package itself
and
grouped by topic. Links to files that are not pages lead to the repository. ``llms.txt`` lists all pages with
their first paragraph, and ``llms-full.txt`` has their text.
"""

import dataclasses
import inspect
import json
import os
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import pointstamp

_ROOT: Final = Path(__file__).parent.parent
_BORROWED: Final = {
    "index.md": "README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
}
_LINK: Final = re.compile(r"\]\((?!https?:|#|mailto:)([^)\s]+)\)")
_MERMAID: Final = _ROOT / ".servers" / "mermaid" / "mermaid.min.js"
_STYLE: Final = """\
.md-grid { max-width: 76rem; }
.md-typeset pre > code { font-size: 0.68rem; }
pre.diagram { text-align: center; }
"""
"""Room for lines of code."""
_DRAW: Final = """\
if (window.mermaid) {
  const dark = document.body.getAttribute("data-md-color-scheme") === "slate";
  const theme = dark ? "dark" : "neutral";
  mermaid.initialize({ startOnLoad: false, theme, flowchart: { htmlLabels: false } });
  document.querySelectorAll("pre.diagram").forEach((each) => { each.textContent = each.textContent; });
  mermaid.run({ querySelector: "pre.diagram" });
}
"""

TOPICS: Final = {
    "flows": ("Flows, streams and tables", ("dataflow", "flow")),
    "running": ("Running flows and queries", ("driver", "query")),
    "expressions": ("Expressions and functions", ("expressions",)),
    "aggregates": ("Aggregates and window functions", ("reduce", "incremental")),
    "sql": ("SQL and DataFrames", ("sql_views",)),
    "io": ("Sources and sinks", ("connectors", "io", "storage", "spark")),
    "operators": ("Custom operators and state", ("operators", "state", "ports")),
    "timely": ("Times, frontiers and progress", ("topology", "order", "progress", "timely")),
    "graphs": ("Graphs", ("graphs",)),
    "testing": ("Testing", ("testing",)),
    "errors": ("Errors and statuses", ("errors", "status")),
}
"""The pages of the Python reference: title, and the packages whose public names they have."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Include the style, and what draws the diagrams if it was downloaded."""
    config.extra_css += ["assets/site.css"]
    if _MERMAID.exists():
        config.extra_javascript += ["assets/mermaid.min.js", "assets/diagrams.js"]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    for page, source in _BORROWED.items():
        files.append(File.generated(config, page, content=(_ROOT / source).read_text()))
    for topic, text in reference().items():
        files.append(File.generated(config, f"reference/python/{topic}.md", content=text))
    files.append(File.generated(config, "assets/site.css", content=_STYLE))
    if _MERMAID.exists():
        files.append(File.generated(config, "assets/mermaid.min.js", content=_MERMAID.read_bytes()))
        files.append(File.generated(config, "assets/diagrams.js", content=_DRAW))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let every link lead to a page of the site, or else to the repository."""
    uri = page.file.src_uri
    markdown = markdown.replace("<!-- defaults -->", defaults())
    folder = _ROOT if uri in _BORROWED else (_ROOT / "docs" / uri).parent
    return _LINK.sub(lambda link: f"]({_target(link[1], folder, uri, config, files)})", markdown)


def _target(link: str, folder: Path, uri: str, config: MkDocsConfig, files: Files) -> str:
    address, mark, anchor = link.partition("#")
    path = (folder / address).resolve()
    inside = path.relative_to(_ROOT).as_posix()
    borrowed = {source: page for page, source in _BORROWED.items()}
    page = borrowed.get(inside, inside.removeprefix("docs/"))
    if files.get_file_from_path(page) is not None:
        return f"{os.path.relpath(page, os.path.dirname(uri) or '.')}{mark}{anchor}"
    if not path.exists():
        raise FileNotFoundError(f"{link} in {uri} leads nowhere: there is no {inside}.")
    return f"{config.repo_url}/blob/main/{inside}"


def reference() -> dict[str, str]:
    """The pages of the Python reference, by topic."""
    entries: dict[str, list[str]] = {topic: [] for topic in TOPICS}
    for name, identifier in _public():
        package = identifier.split(".")[1] if "." in identifier else ""
        topic = next((topic for topic, (_, packages) in TOPICS.items() if package in packages), None)
        if topic is None:
            raise LookupError(f"no topic of scripts/docs_site.py has the package {package!r} of '{name}'.")
        if f"::: {identifier}" not in entries[topic]:
            entries[topic].append(f"::: {identifier}")
    return {
        topic: "\n\n".join([f"# {title}", _OPENING.format(title=title.lower()), *entries[topic]]) + "\n"
        for topic, (title, _) in TOPICS.items()
    }


_VERBS: Final = ("run", "stream", "start", "open", "stream_input", "table")
_OPTIONS: Final = {
    "spark": "the session",
    "on": "the session; None: this process",
    "inputs": "the inputs by name; keywords are the same",
    "checkpoint": "folder of state, positions and journal; None: nothing is saved",
    "output": "folder of Parquet output, or a sink",
    "workers": "number of workers; None on Spark: the free slots (a query leaves one free)",
    "min_workers": "number of workers with which a flow runs if Spark has fewer slots; None: 1",
    "processes": "number of worker processes; None: all workers in this process",
    "epoch": "column with the epoch of each row; None: an epoch per item, file or batch",
    "snapshots": "when to take snapshots; None: after every epoch",
    "restarts": "how often to restart after failures; None: `RestartPolicy()`",
    "available_now": "whether the query ends when everything that is there is published",
    "accept_changes": "whether dropped outputs and changed functions are accepted at a restart",
    "savepoint": "checkpoint and name of the savepoint to begin with",
    "silence_seconds_max": "a worker that is silent for longer is replaced",
    "verify": "whether every step is checked against the formal models",
    "tick_every": "interval of epochs by the wall clock; None: as soon as rows arrive",
    "dashboard": "whether to serve the dashboard: True, or a port",
    "dashboard_token": "token of the dashboard; None: random",
    "rescale": "when new executors are used: `'restart'` or `'eager'`",
    "spare_crew": "whether a second set of workers stands by; it needs as many slots again",
    "barrier": "whether the workers are one barrier stage, all or none",
    "in_driver": "whether the flow runs in the driver's process, without slots",
    "pushdown": "whether Spark runs the first steps of inputs",
    "on_result": "function that is called with each complete result",
    "progress": "whether to show progress in the terminal",
    "on_epoch": "function that is called with each complete epoch and its tables",
    "control": "how much may be in flight; None: `FlowControl()`",
    "name": "name",
    "schema": "columns: Spark DDL or a `pyarrow.Schema`",
    "path": "folder or address",
    "bootstrap": "addresses of brokers",
    "namespace": "namespace of the tables",
    "catalog_name": "name of the catalog",
    "storage_options": "options for opening the path",
    "epochs": "snapshot after this many epochs",
    "seconds": "snapshot after this many seconds",
    "epochs_max": "epochs in flight before inputs wait",
    "bytes_max": "bytes in flight before inputs wait",
    "restarts_max": "number of restarts within `within_seconds`; 0: none",
    "within_seconds": "the period for `restarts_max`",
    "pause_seconds": "pause before the next attempt",
    "pause_seconds_max": "longest pause",
}
"""What an option means that has the same meaning everywhere; all others are read from the docstrings."""
_OF_FLOWS: Final = {
    name: meaning for name, meaning in _OPTIONS.items() if name not in ("epochs", "seconds", "snapshots")
}
_PLACES: Final = {
    name: _OPTIONS[name] for name in ("path", "storage_options", "bootstrap", "namespace", "catalog_name")
}
_INTERNAL: Final = ("self", "query", "schemas", "connect", "open_storage")


def defaults() -> str:
    """The options of public callables with their defaults, as tables."""
    flow = [(f"Dataflow.{verb}", getattr(pointstamp.Dataflow, verb, None)) for verb in _VERBS]
    found: dict[str, list[tuple[str, object]]] = {
        "Flows": [("Dataflow", pointstamp.Dataflow), *(each for each in flow if each[1] is not None)],
        "Policies": [],
        "Sources": [],
        "Sinks": [],
    }
    for name, identifier in _public():
        module, _, member = identifier.rpartition(".")
        value = getattr(import_module(module), member)
        if member.endswith(("Policy", "Options", "Control")):
            found["Policies"].append((name, value))
        elif module.startswith("pointstamp.connectors") and inspect.isfunction(value):
            found["Sources"].append((name, value))
        elif member == "catalog" or (
            member.endswith("Sink") and member != "CatalogSink" and dataclasses.is_dataclass(value)
        ):
            found["Sinks"].append((name, value))
    lines: list[str] = []
    for heading, named in found.items():
        lines += [f"## {heading}", ""]
        said = {"Flows": _OF_FLOWS, "Policies": _OPTIONS}.get(heading, _PLACES)
        for name, value in named:
            lines += [
                f"### `ps.{name}`",
                "",
                "| option | default | meaning |",
                "|---|---|---|",
                *_rows(value, said),
                "",
            ]
    return "\n".join(lines)


def _rows(value: Any, said: Mapping[str, str]) -> Iterator[str]:  # noqa: ANN401 - a public function or class
    fields = (
        {each.name: each for each in dataclasses.fields(value)} if dataclasses.is_dataclass(value) else {}
    )
    described = inspect.cleandoc(value.__doc__ or "")
    for each in inspect.signature(value).parameters.values():
        if each.name in _INTERNAL or each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
            continue
        default = each.default
        made: Any = fields[each.name].default_factory if each.name in fields else dataclasses.MISSING
        if made is not dataclasses.MISSING:
            default = made()
        plain = isinstance(default, str | int | float | bool | tuple | dict | frozenset | type(None))
        shown = (
            "required"
            if default is each.empty
            else f"`{default!r}`"
            if plain
            else f"`{type(default).__name__}`"
        )
        yield f"| `{each.name}` | {shown} | {said.get(each.name) or _said_of(each.name, described)} |"


def _said_of(name: str, docstring: str) -> str:
    """The entry of a parameter in a docstring, or the sentence that names it first."""
    named = rf"``{name}``(?:, ``\w+``)*"
    entry = re.search(
        rf"^(?:- .*?{named}.*?: ((?:.|\n(?=  ))*)|    {name}: ((?:.|\n(?= {{8}}))*))", docstring, re.M
    )
    sentences = re.split(r"(?<=\.)\s+", docstring)
    found = (
        (entry[1] or entry[2])
        if entry
        else next((each for each in sentences if re.search(rf"``{name}[`=]", each)), "")
    )
    return re.sub(r"\s+", " ", found).replace("``", "`").replace("|", "\\|")


_OPENING: Final = (
    "This page has the public names for {title}, from their docstrings. You need `import pointstamp as ps`. "
    "Examples of methods are on separate pages: [tables](../table_examples.md), "
    "[streams](../stream_examples.md), [aggregates](../aggregate_examples.md), "
    "[queries](../query_examples.md)."
)


def _public() -> Iterator[tuple[str, str]]:
    """Every public name as ``ps.name``, with the module that defines it; those of public modules, too."""
    homes: dict[str, str] = pointstamp._HOMES  # noqa: SLF001 - the one list of where public names live
    modules: tuple[str, ...] = pointstamp._MODULES  # noqa: SLF001 - and the one list of public modules
    for name in sorted([*homes, *modules], key=str.lower):
        value = getattr(pointstamp, name)
        if name not in modules:
            yield name, f"pointstamp.{homes[name]}.{name}"
            continue
        for inner in getattr(value, "__all__", ()) or [
            each for each in vars(value) if not each.startswith("_")
        ]:
            member = getattr(value, inner)
            home = getattr(member, "__module__", value.__name__) or value.__name__
            if isinstance(member, ModuleType) or not _is_offered(value, home):
                continue
            if getattr(member, "__name__", inner) != inner:
                home = value.__name__
            yield f"{name}.{inner}", f"{home}.{inner}"


_HELPERS: Final = ("pointstamp.redaction",)
"""Modules whose names public modules import for their own use."""


def _is_offered(module: ModuleType, home: str) -> bool:
    """Return whether a public module offers what is defined in ``home``, and does not only import it."""
    within = "pointstamp" if hasattr(module, "__all__") else module.__name__.rpartition(".")[0]
    return f"{home}.".startswith(f"{within}.") and home not in _HELPERS


def _pages() -> list[Path]:
    """The pages of docs/, in the order of the parts of the site."""
    parts = ("start", "tutorials", "howto", "migrate", "reference", "explanation", "benchmarks")
    pages = sorted((_ROOT / "docs").rglob("*.md"))
    return sorted(pages, key=lambda page: parts.index(page.relative_to(_ROOT / "docs").parts[0]))


def _address(page: Path) -> str:
    """The address of a page below that of the site."""
    return page.relative_to(_ROOT / "docs").with_suffix("").as_posix().removesuffix("index").rstrip("/") + "/"


def on_post_build(config: MkDocsConfig) -> None:
    """Write the pages for language models."""
    brief, full = [f"# {config.site_name}\n\n> {config.site_description}\n"], []
    pages = [(_ROOT / "README.md", ""), *((page, _address(page)) for page in _pages())]
    section = None
    for path, address in pages:
        text = path.read_text()
        title = text.partition("\n")[0].lstrip("# ")
        first = " ".join(text.split("\n\n")[1].split())
        if (found := address.partition("/")[0]) != section:
            section = found
            brief.append(f"\n## {section.capitalize() or 'Overview'}\n")
        brief.append(f"- [{title}]({config.site_url}{address}): {first}")
        full.append(text)
    (Path(config.site_dir) / "llms.txt").write_text("\n".join(brief) + "\n")
    (Path(config.site_dir) / "llms-full.txt").write_text("\n\n".join(full))
    _list_versions(Path(config.site_dir))


_REDIRECT: Final = (
    '<!doctype html><meta http-equiv="refresh" content="0; url={version}/">'
    '<a href="{version}/">{version}</a>\n'
)


def _list_versions(built: Path) -> None:
    """Write the list of the versions that lie side by side, for the selector, and lead to the newest."""
    versions = [each.name for each in built.parent.iterdir() if (each / "llms.txt").exists()]
    numbers = {each: [int(part) for part in re.findall(r"\d+", each)] for each in versions}
    newest_first = sorted(versions, key=lambda each: (bool(numbers[each]), numbers[each]), reverse=True)
    listed = [
        {"version": each, "title": each, "aliases": ["latest"] if each == newest_first[0] else []}
        for each in newest_first
    ]
    (built.parent / "versions.json").write_text(json.dumps(listed, indent=1) + "\n")
    (built.parent / "index.html").write_text(_REDIRECT.format(version=newest_first[0]))
