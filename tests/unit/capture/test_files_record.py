import pytest

from stepscope.capture.files import claim, stem


def test_role_rank_and_step_are_in_the_name():
    assert stem("chief", 0, 500) == "chief_rank0_step00000500"
    assert stem("worker", 7, 500, world_size=1024) == "worker_rank0007_step00000500"
    assert stem("p/s ../x", 1, 5) == "p-s-x_rank1_step00000005"
    assert stem("/", 1, 5) == "process_rank1_step00000005"


def test_names_never_collide(tmp_path):
    names = [claim(tmp_path / "new", "a", ".json").name for _ in range(3)]
    assert names == ["a.json", "a_2.json", "a_3.json"]


def test_another_process_that_is_quicker_is_left_its_file(tmp_path):
    (tmp_path / "a.json").write_text("theirs")
    assert claim(tmp_path, "a", ".json", exists=lambda path: False).name == "a_2.json"
    assert (tmp_path / "a.json").read_text() == "theirs"


def test_a_folder_that_cannot_be_made_is_an_os_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        claim(tmp_path / "file" / "folder", "a", ".json")
