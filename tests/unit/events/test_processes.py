import os
import subprocess
import sys

import pytest
from support.waiting import until

from stepscope.events.processes import process_stat

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_a_process_that_runs_says_since_when_and_one_that_ended_that_it_did():
    own = process_stat(os.getpid())
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        until(lambda: process_stat(child.pid).is_dead)  # nobody has asked how it ended
        assert process_stat(child.pid).start_ticks >= own.start_ticks > 0
    assert not own.is_dead
    assert process_stat(child.pid) is None
