#!/bin/sh
# Makes a virtual environment in $1 with $PYTHON (default python3), on Debian also where python3-venv is missing.
set -eu
python=${PYTHON:-python3}
"$python" - <<'CHECK' || exit 1
import sys
if sys.version_info < (3, 10):
    sys.exit("Stepscope needs Python 3.10 or newer, this is %s\nhint: make PYTHON=python3.11 …" % sys.version.split()[0])
CHECK
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null
    else
        echo "Python's venv module is missing" >&2
        echo "hint: sudo apt-get install python3-venv" >&2
        exit 1
    fi
fi
"$python" -m venv "$1"
"$1/bin/python" -m pip install --quiet --upgrade pip
