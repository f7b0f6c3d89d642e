import numpy as np

from stepscope.record.summaries.arrays import prepare_embedding


def test_pictures_of_an_embedding_count_for_the_memory_that_waits(tmp_path):
    vectors, images = np.zeros((4, 3)), np.zeros((4, 8, 8, 3), np.uint8)
    alone = prepare_embedding(str(tmp_path), vectors, 0)
    shown = prepare_embedding(str(tmp_path), vectors, 0, images=images)
    assert shown.nbytes - alone.nbytes >= images.nbytes
