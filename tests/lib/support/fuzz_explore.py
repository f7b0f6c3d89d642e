"""Lets atheris look for new paths: ``python -m support.fuzz_explore TARGET SECONDS [INPUTS]``.

A process of its own, because atheris sees the paths through modules alone that are imported while it watches.
"""

from __future__ import annotations

import resource
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import atheris


def explore(name: str, seconds: str, most: str = "") -> None:
    """Feed a target for so long, or so often where ``most`` is given; atheris ends the process."""
    with tempfile.TemporaryDirectory() as folder:
        with atheris.instrument_imports(include=["stepscope"]):
            from support import fuzz

            for data in fuzz.seeds(name):  # what a target imports as it runs is watched too
                with suppress(Exception):
                    fuzz.attempt(name, data, Path(folder))

        def once(data: bytes) -> None:
            try:
                fuzz.attempt(name, data, Path(folder))
            except BaseException:
                fuzz.keep(name, data)
                raise

        resource.setrlimit(resource.RLIMIT_AS, (fuzz.MEMORY_BYTES, fuzz.MEMORY_BYTES))
        place = fuzz.BUILD / name
        place.mkdir(parents=True, exist_ok=True)
        for at, data in enumerate(fuzz.seeds(name)):
            (place / f"seed-{at}").write_bytes(data)
        limits = [
            f"-runs={most}" if most else f"-max_total_time={int(float(seconds))}",
            f"-timeout={fuzz.SECONDS}",
            "-rss_limit_mb=6144",
            "-verbosity=0",
        ]
        atheris.Setup(
            [name, *limits, f"-artifact_prefix={fuzz.FINDS / name}-", "-print_final_stats=1", str(place)],
            once,
        )
        atheris.Fuzz()


if __name__ == "__main__":
    explore(*sys.argv[1:])
