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
.venv/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
