#!/usr/bin/env bash
# Make .venv and install Ottla into it for development. Safe to run again.
set -euo pipefail
cd "$(dirname "$0")/.."

fits() { "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

python=
for candidate in "${PYTHON:-python3}" python3.13 python3.12 python3.11 python3.14; do
    if fits "$candidate"; then python=$candidate; break; fi
done
if [ -z "$python" ]; then
    scripts/install-tools.sh python3 python3-venv
    python=python3
    fits "$python" || { echo "setup: needs Python 3.11 or newer with venv; name it by PYTHON=..." >&2; exit 1; }
fi

[ -x .venv/bin/python ] || "$python" -m venv .venv

# The hot modules are compiled where that is possible, and run as they are where it is not.
compiles() {
    command -v cc >/dev/null && .venv/bin/python -c '
import sys, sysconfig, pathlib
sys.exit(not (pathlib.Path(sysconfig.get_path("include")) / "Python.h").exists())'
}
compiler=
if [ "${OTTLA_COMPILE:-}" = 0 ]; then :; elif compiles || scripts/install-tools.sh gcc libc6-dev python3-dev; then compiler=yes; else
    echo "setup: no C compiler, so Ottla will run uncompiled" >&2
fi
OTTLA_COMPILE=0 .venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
if [ "$compiler" ]; then
    # In place, and only what has changed since the last time.
    .venv/bin/python -W ignore setup.py --quiet build_ext --inplace
    if ! .venv/bin/python -c 'import sys; from ottla.base.compiled import is_compiled; sys.exit(not is_compiled())'; then
        echo "setup: there is a C compiler, but nothing was compiled; see: .venv/bin/python setup.py build_ext --inplace" >&2
        exit 1
    fi
else
    find src -name '*.so' -delete # or what was compiled once would hide its newer source
fi
