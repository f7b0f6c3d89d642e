"""``python -m stepscope.compat train.py …``: runs a program, unchanged, on the stand-ins."""

from __future__ import annotations

import os
import runpy
import sys

from stepscope.compat.imports import install

USAGE = """usage: python -m stepscope.compat SCRIPT [ARGUMENT …]
       python -m stepscope.compat -m MODULE [ARGUMENT …]
hint: name the program that imports torch.utils.tensorboard or tensorboardX"""


def main(arguments: list[str]) -> int:
    """Run a script or a module as ``python`` does; return 2 if none is given."""
    module = arguments[:1] == ["-m"]
    rest = arguments[1:] if module else arguments
    if not rest or rest[0].startswith("-"):
        print(USAGE, file=sys.stderr)
        return 2
    install()
    sys.argv = rest
    if module:
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(rest[0]))  # noqa: PTH100, PTH120  as Python has it, text
        runpy.run_path(rest[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
