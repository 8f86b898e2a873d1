"""What turns docs/ into a site: mkdocs calls these functions when `make docs` builds it.

The README, the changelog and the page on contributing stay where a repository has them, and are pages of the
site, too. The reference has an entry for every public name, taken from the package itself, so that none can
be forgotten. Links to files that are no pages lead to the repository.
"""

import re
from pathlib import Path
from types import ModuleType
from typing import Final

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

_REFERENCE_BEGIN: Final = """\
# Reference

Every public name of `pointstamp`, with what its docstring says. `import pointstamp as ps` is all it takes.
"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    for page, source in _BORROWED.items():
        files.append(File.generated(config, page, content=(_ROOT / source).read_text()))
    files.append(File.generated(config, "reference.md", content=_reference()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let every link lead to a page of the site, or else to the repository."""
    folder = _ROOT if page.file.src_uri in _BORROWED else _ROOT / "docs"
    return _LINK.sub(lambda link: f"]({_target(link[1], folder, config, files)})", markdown)


def _target(link: str, folder: Path, config: MkDocsConfig, files: Files) -> str:
    address, mark, anchor = link.partition("#")
    path = (folder / address).resolve()
    inside = path.relative_to(_ROOT).as_posix()
    borrowed = {source: page for page, source in _BORROWED.items()}
    page = borrowed.get(inside, inside.removeprefix("docs/"))
    if files.get_file_from_path(page) is not None:
        return f"{page}{mark}{anchor}"
    if not path.exists():
        raise FileNotFoundError(f"{link} in {folder} leads nowhere: there is no {inside}.")
    return f"{config.repo_url}/blob/main/{inside}"


def _reference() -> str:
    homes: dict[str, str] = pointstamp._HOMES  # noqa: SLF001 - the one list of where public names live
    entries = []
    for name in sorted(homes, key=str.lower):
        home = f"pointstamp.{homes[name]}"
        is_module = isinstance(getattr(pointstamp, name), ModuleType)
        entries.append(f"::: {home}" if is_module else f"::: {home}.{name}")
    return "\n\n".join([_REFERENCE_BEGIN, *entries]) + "\n"
