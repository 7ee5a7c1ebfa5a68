#!/usr/bin/env bash
# The one entry: ./build.sh setup | demo | unit | test | slow | check | fmt | docs | wheel | bench NAME | soak --hours N | jar
# Every command does the set-up it needs; needs Python 3.11 or later, Java 17, and PyPI and Maven in reach.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

find_python() {
  for candidate in "${PYTHON:-}" python3.11 python3.12 python3.13 python3; do
    if [ -n "$candidate" ] && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  echo "build.sh: Python 3.11 or later is needed (set PYTHON to one)" >&2
  return 1
}

# .venv with everything; redone only when what it is made from has changed.
environment() {
  local stamp
  stamp=$(cat pyproject.toml setup.py | cksum)
  if [ "$(cat .venv/tidemill-stamp 2>/dev/null)" != "$stamp" ]; then
    [ -x .venv/bin/python ] || "$(find_python)" -m venv .venv
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
    echo "$stamp" > .venv/tidemill-stamp
  fi
  export PATH="$PWD/.venv/bin:$PATH" VIRTUAL_ENV="$PWD/.venv"
}

jar() {
  command -v "${JAVA_HOME:+$JAVA_HOME/bin/}java" > /dev/null || { echo "build.sh: Java 17 is needed (java not found)" >&2; exit 1; }
  python jvm-bridge/build.py "$@"
}

setup() { environment; jar; }

demo() { setup; python -m examples.demo "$@"; }

# Two processes, each with a session of its own; those tests first that take longest.
suite() { python -m pytest -n 2 --dist loadfile --no-loadscope-reorder "$@"; }

# Without a session to share, tests go wherever there is time.
unit() { environment; suite --dist load -m "not jvm and not slow" "$@"; }

test() { setup; suite -m "not slow" "$@"; }

slow() { setup; suite -m slow "$@"; }

check() {
  environment
  ruff format --check .
  ruff check .
  python jvm-bridge/format.py --check
  mypy
  docs
}

# The documentation as a site in build/site. A link that leads nowhere fails it, but not with --quiet: strict counts warnings
# as they are printed. The variable silences an announcement of the theme's authors.
docs() { environment; NO_MKDOCS_2_WARNING=1 mkdocs build --strict; }

fmt() {
  environment
  ruff format .
  ruff check --fix .
  python jvm-bridge/format.py
}

# The distribution with its jar, in dist/.
wheel() { setup; python -m pip wheel --quiet --no-deps --wheel-dir dist .; }

bench() { setup; python -m benchmarks "$@"; }

soak() { setup; python -m tests.soak "$@"; }

case "${1:-}" in
  setup | demo | unit | test | slow | check | fmt | docs | wheel | bench | soak) "$@" ;;
  jar) environment; shift; jar "$@" ;;
  *) sed -n '2,3s/^# //p' "$0" >&2; exit 2 ;;
esac
