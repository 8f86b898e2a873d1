"""Get jars that tests run, by name and version, and check each of them: ``python scripts/jars.py kafka``.

``requirements/jars/NAME.xml`` names the jars for Maven, which looks where its own settings say, and
``requirements/jars/NAME.sha256`` says what each of them is. They are kept in ``.jars/NAME``, and got once.
``--write`` writes the checksums again, after a version was changed.
"""

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
SECONDS_MAX: Final = 900
MISSING: Final = (
    "The jars of '{name}' are not in .jars/, and Maven, which gets them, was not found. Install it "
    "(Debian: apt-get install maven; macOS: brew install maven), then run: python scripts/jars.py {name}"
)


def jars(name: str) -> Path:
    """The folder with the jars of a name, which are got if they are not there; SystemExit says why not."""
    folder, wanted = ROOT / ".jars" / name, _listed(name)
    folder.parent.mkdir(exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several processes of tests may want them at once
        if {path.name: _sum(path) for path in folder.glob("*.jar")} != wanted:
            _get(name, folder)
            _check({path.name: _sum(path) for path in folder.glob("*.jar")}, wanted, name)
    return folder


def _get(name: str, folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise SystemExit(MISSING.format(name=name))
    shutil.rmtree(folder, ignore_errors=True)
    pom = ROOT / "requirements" / "jars" / f"{name}.xml"
    command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", "-DincludeScope=runtime"]
    done = subprocess.run(
        [*command, f"-DoutputDirectory={folder}"], capture_output=True, text=True, timeout=SECONDS_MAX
    )
    if done.returncode:
        raise SystemExit(f"Maven could not get the jars of '{name}': {done.stdout[-2000:]}")


def _check(found: dict[str, str], wanted: dict[str, str], name: str) -> None:
    wrong = sorted(jar for jar in {*found, *wanted} if found.get(jar) != wanted.get(jar))
    if wrong:
        raise SystemExit(
            f"The jars of '{name}' are not those of requirements/jars/{name}.sha256: {', '.join(wrong)} "
            "differ, are missing or are too many. Look where Maven got them; after a change of versions, "
            f"run: python scripts/jars.py {name} --write"
        )


def _listed(name: str) -> dict[str, str]:
    lines = (ROOT / "requirements" / "jars" / f"{name}.sha256").read_text().splitlines()
    return {jar: told for told, jar in (line.split() for line in lines)}


def _sum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> int:
    """Get the jars that are asked for."""
    name, *options = sys.argv[1:] or ["kafka"]
    if options == ["--write"]:
        folder = ROOT / ".jars" / name
        _get(name, folder)
        sums = "".join(f"{_sum(path)}  {path.name}\n" for path in sorted(folder.glob("*.jar")))
        (ROOT / "requirements" / "jars" / f"{name}.sha256").write_text(sums)
    print(jars(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
