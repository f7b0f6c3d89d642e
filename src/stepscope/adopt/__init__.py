"""Logs that other tools have left: read as runs, and written as event files that everything here reads."""

from stepscope.adopt.files import logs_in, logs_of
from stepscope.adopt.log import Log
from stepscope.adopt.write import places, write

__all__ = ["Log", "logs_in", "logs_of", "places", "write"]
