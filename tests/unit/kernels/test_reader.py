import threading

import numpy as np
import pytest
from support.modules import uncompiled

from stepscope.kernels import reader
from stepscope.record.edges import BUCKET_OF_KEY


@pytest.mark.parametrize("module", [reader, uncompiled(reader)], ids=["compiled", "python"])
def test_a_thread_of_its_own_reads_while_another_goes_on(module):
    one = module.Reader(BUCKET_OF_KEY)
    thread = threading.Thread(target=one.serve)
    thread.start()
    random = np.random.default_rng(3)
    given = [random.standard_normal(5000).astype(kind) for kind in ("f4", "f2", "f8")]
    for turn in range(21):
        some = given[: 1 + turn % 3]
        columns = [
            np.array(column, np.int64)
            for column in ([a.ctypes.data for a in some], [a.size for a in some], [0, 2, 3][: len(some)])
        ]
        out = np.zeros((1, 7))
        one.ask(*columns, out)
        assert one.busy
        with pytest.raises(RuntimeError, match="without waiting"):
            one.ask(*columns, out)
        one.wait()
        assert not one.busy
        assert out[0, 0] == 5000 * len(some)
        assert out[0, 2] == pytest.approx(sum((a.astype("f8") ** 2).sum() for a in some), rel=1e-12)
    one.wait()  # nothing was asked for
    one.close()
    thread.join(5)
    assert not thread.is_alive()
