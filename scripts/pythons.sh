#!/bin/sh
# Prints an interpreter of each Python that wheels are built for and this machine has: on the PATH, or else in pyenv.
for minor in 10 11 12 13 14; do
  for python in "python3.$minor" "${PYENV_ROOT:-$HOME/.pyenv}/versions/3.$minor".*/bin/python; do
    # One without ensurepip cannot make the environments in which wheels are built and tried.
    if found=$("$python" -c 'import ensurepip, sys; print(sys.executable)' 2>/dev/null); then
      echo "$found"
      break
    fi
  done
done
