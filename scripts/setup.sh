#!/bin/sh
# Sets up everything that `make run` and `make test` need, into .venv beside this project:
# Python 3.11+ (found), uv (bootstrapped with pip where it is missing), the locked
# dependencies, pointstamp itself with its kernels and core compiled by the system's C compiler or, where
# there is none, by that of PyPI, Java 17+ for Spark, and PostgreSQL for the tests of its sink.
# Running it again costs a second. With --without-java it leaves Java and PostgreSQL alone; tests
# that start Spark will then fail, and those of the sink are skipped. With --for-tests it also
# sees to Chromium and its driver, which the tests of the dashboard need, and to libfaketime, with
# which those of several hosts set clocks.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

find_python() {
    for candidate in python3 python3.13 python3.12 python3.11; do
        if command -v "$candidate" >/dev/null 2>&1 &&
            "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    fail "Python 3.11 or newer is needed and was not found. Install it (Debian: apt-get install python3 python3-venv)."
}

find_uv() {
    if command -v uv >/dev/null 2>&1; then
        command -v uv
    elif [ -x .uv/bin/uv ]; then
        echo .uv/bin/uv
    else
        say "uv is missing: installing it into .uv"
        "$1" -m venv .uv >&2 ||
            fail "'$1 -m venv' does not work. Install it (Debian: apt-get install python3-venv) or install uv yourself."
        .uv/bin/python -m pip install --quiet --require-hashes -r requirements/uv.txt >&2
        echo .uv/bin/uv
    fi
}

java_major() {
    java_command=java
    if [ -n "${JAVA_HOME:-}" ]; then java_command="$JAVA_HOME/bin/java"; fi
    # Prints 17 for "17.0.15", 8 for "1.8.0_442", and 0 where there is no Java.
    "$java_command" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1 | grep . || echo 0
}

need_java() {
    if [ -n "${JAVA_HOME:-}" ] && [ ! -x "$JAVA_HOME/bin/java" ]; then
        fail "JAVA_HOME is '$JAVA_HOME', and there is no bin/java in it. Correct it, or unset it to use the java on PATH."
    fi
    found=$(java_major)
    if [ "$found" -ge 17 ]; then return; fi
    advice="Spark needs Java 17 or newer and found ${found} (0 = none). Install it (Debian: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17) or point JAVA_HOME at one."
    command -v apt-get >/dev/null 2>&1 || fail "$advice"
    if [ "$(id -u)" -eq 0 ]; then root=""; elif sudo -n true 2>/dev/null; then root="sudo -n"; else fail "$advice"; fi
    say "Java 17 or newer is missing: installing it with apt-get"
    $root apt-get update -qq >&2 || fail "apt-get update failed. $advice"
    # Debian 13 dropped openjdk-17; any newer headless runtime serves Spark as well.
    DEBIAN_FRONTEND=noninteractive $root apt-get install -y -qq openjdk-17-jre-headless >&2 ||
        DEBIAN_FRONTEND=noninteractive $root apt-get install -y -qq default-jre-headless >&2 || fail "$advice"
    [ "$(java_major)" -ge 17 ] || fail "$advice"
}

# Maven gets the jars of a Kafka broker for tests (scripts/jars.py); without it those tests fail, and say why.
need_maven() {
    if [ -d .jars/kafka ] || command -v mvn >/dev/null 2>&1; then return; fi
    if ! command -v apt-get >/dev/null 2>&1; then say "Maven is missing: tests of Kafka will fail"; return; fi
    if [ "$(id -u)" -eq 0 ]; then root=""; else root="sudo -n"; fi
    say "Maven is missing: installing it with apt-get"
    DEBIAN_FRONTEND=noninteractive $root apt-get install -y -qq --no-install-recommends maven >&2 ||
        say "Maven could not be installed: tests of Kafka will fail"
}

need_postgres() {
    for found in initdb /usr/lib/postgresql/*/bin/initdb /opt/homebrew/opt/postgresql*/bin/initdb; do
        if command -v "$found" >/dev/null 2>&1; then return; fi
    done
    advice="The tests of ps.PostgresSink need PostgreSQL, which was not found. Install it (Debian: apt-get install postgresql; macOS: brew install postgresql@17)."
    command -v apt-get >/dev/null 2>&1 || fail "$advice"
    if [ "$(id -u)" -eq 0 ]; then root=""; elif sudo -n true 2>/dev/null; then root="sudo -n"; else fail "$advice"; fi
    say "PostgreSQL is missing: installing it with apt-get"
    $root apt-get update -qq >&2 || fail "apt-get update failed. $advice"
    DEBIAN_FRONTEND=noninteractive $root apt-get install -y -qq --no-install-recommends postgresql >&2 || fail "$advice"
}

find_any() { for each in "$@"; do if command -v "$each" >/dev/null 2>&1; then return 0; fi; done; return 1; }

has_browser() {
    find_any chromium chromium-browser google-chrome && find_any chromedriver "${CHROMEWEBDRIVER:-none}/chromedriver"
}

need_browser() {
    if has_browser; then return; fi
    advice="The tests of the dashboard need Chromium and its driver, which were not found (Debian: apt-get install chromium chromium-driver)."
    command -v apt-get >/dev/null 2>&1 || fail "$advice"
    if [ "$(id -u)" -eq 0 ]; then root=""; elif sudo -n true 2>/dev/null; then root="sudo -n"; else fail "$advice"; fi
    say "Chromium is missing: installing it with apt-get"
    $root apt-get update -qq >&2 || fail "apt-get update failed. $advice"
    DEBIAN_FRONTEND=noninteractive $root apt-get install -y -qq chromium chromium-driver >&2 || fail "$advice"
    has_browser || fail "$advice"
}

need_fake_clocks() {
    for found in /usr/lib/*/faketime/libfaketimeMT.so.1; do if [ -e "$found" ]; then return; fi; done
    if ! command -v apt-get >/dev/null 2>&1; then say "libfaketime is missing: a test of clocks is skipped"; return; fi
    if [ "$(id -u)" -eq 0 ]; then root=""; else root="sudo -n"; fi
    say "libfaketime is missing: installing it with apt-get"
    { $root apt-get update -qq && DEBIAN_FRONTEND=noninteractive $root apt-get install -y -qq libfaketime; } >&2 ||
        say "libfaketime could not be installed: a test of clocks is skipped"
}

python=$(find_python)
if [ "${1:-}" = "--for-tests" ]; then
    need_browser
    need_fake_clocks
fi
if [ "${1:-}" != "--without-java" ]; then
    need_java
    need_maven
    need_postgres
fi
stamp=.venv/.pointstamp-setup
wanted=$(cat requirements/dev.txt pyproject.toml models/pyproject.toml scripts/setup.sh | cksum)
if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
    uv=$(find_uv "$python")
    say "installing the locked dependencies into .venv"
    [ -x .venv/bin/python ] || "$uv" venv --quiet --python "$python" .venv
    # Compiled once, here: a process that finds nothing compiled takes two seconds more to start, each time.
    "$uv" pip sync --quiet --python .venv/bin/python --require-hashes --compile-bytecode requirements/dev.txt
    "$uv" pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable . --editable models
    echo "$wanted" >"$stamp"
fi
# Kernels and core as machine code, once for each state of their sources, by the system's C compiler or PyPI's.
if ! .venv/bin/python scripts/compile_core.py --check-compiler; then
    say "there is no C compiler: getting the one of PyPI"
    "$(find_uv "$python")" pip install --quiet --python .venv/bin/python --require-hashes -r requirements/compiler.txt ||
        say "it could not be installed"
fi
.venv/bin/python scripts/compile_core.py || exit 1
