"""Which tests pytest-xdist gives to one worker."""

import re
from functools import cache
from pathlib import Path
from typing import Any

from xdist.scheduler import LoadFileScheduling

TIMING = re.compile(r"^(@|pytestmark = .*)pytest\.mark\.timing\b", re.MULTILINE)


class FilesTogether(LoadFileScheduling):
    """Give all tests of a file to one worker, for they share fixtures, and all files that hold a time to one.

    A name says all that is known here of a test: the group that ``xdist_group`` gives it was a part of its
    name, until pytest 9.2 had no place for that.
    """

    def __init__(self, config: Any, log: Any = None) -> None:
        super().__init__(config, log)
        self._root = Path(config.rootpath)
        self._group = cache(self._group_of)

    def _split_scope(self, nodeid: str) -> str:
        return self._group(super()._split_scope(nodeid))

    def _group_of(self, file: str) -> str:
        return "timing" if TIMING.search((self._root / file).read_text(encoding="utf-8")) else file
