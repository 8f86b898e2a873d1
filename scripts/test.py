"""Run the tests in two processes side by side, because each of them waits for others much of its time.

One runs the tests that start Spark, the other all that do not; what the first prints comes after the other.
The long ones are left out. The exit code is 0 if both passed.
"""

import subprocess
import sys
import tempfile

PYTEST = [sys.executable, "-m", "pytest"]


def main() -> int:
    """Run both, and say how they ended."""
    with tempfile.TemporaryFile("w+") as said:
        with_spark = subprocess.Popen(
            [*PYTEST, "-p", "no:cacheprovider", "-m", "spark and not long"], stdout=said, stderr=said
        )
        try:
            without = subprocess.call([*PYTEST, "-m", "not spark and not long"])
            print(f"tests without Spark: {_words(without)}; those with Spark follow", flush=True)
            code = with_spark.wait()
        finally:
            with_spark.terminate()  # who has interrupted this one waits for nobody
        said.seek(0)
        for line in said:
            print(line, end="")
    print(f"tests without Spark: {_words(without)}, with Spark: {_words(code)}")
    return 1 if without or code else 0


def _words(code: int) -> str:
    return "passed" if code == 0 else f"FAILED (exit code {code})"


if __name__ == "__main__":
    sys.exit(main())
