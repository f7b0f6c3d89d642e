import json

import pytest

from stepscope.capture.files import KeptProfile, bound, claim, stem, to_delete


def names(kept):
    return [each.name for each in kept]


def test_the_oldest_go_first():
    profiles = [KeptProfile(name, wall) for wall, name in enumerate("abcde")]
    assert names(to_delete(profiles, 2)) == ["a", "b", "c"]
    assert to_delete(profiles, 5) == []


def test_what_was_asked_for_stays():
    profiles = [KeptProfile("alert", 0, asked_for=True), KeptProfile("b", 1), KeptProfile("c", 2)]
    assert names(to_delete(profiles, 1)) == ["b"]


def test_profiles_of_slow_steps_go_and_those_of_alerts_stay(tmp_path):
    for wall, cause in enumerate(["alert", "slow step", "request", "slow step", "schedule", "signal"]):
        facts = {"rank": 0, "wall": wall, "cause": cause, "path": f"{wall}.json"}
        (tmp_path / f"{wall}.profile.json").write_text(json.dumps(facts))
    assert bound(tmp_path, tmp_path, 0, 2) == 3
    assert sorted(path.name[0] for path in tmp_path.glob("*.profile.json")) == ["0", "2", "4", "5"]


def test_what_advice_points_to_stays_until_a_newer_profile_says_the_same():
    slow = frozenset({"input-bound"})
    profiles = [KeptProfile("a", 0, rules=slow), KeptProfile("b", 1), KeptProfile("c", 2)]
    assert names(to_delete(profiles, 1)) == ["b"]
    assert names(to_delete([*profiles, KeptProfile("d", 3, rules=slow)], 1)) == ["a", "b"]


def test_what_something_refers_to_takes_the_room_of_what_nothing_refers_to():
    asked = [KeptProfile(f"asked {wall}", wall, asked_for=True) for wall in range(3)]
    free = [KeptProfile(name, 3 + wall) for wall, name in enumerate("abc")]
    assert names(to_delete([*asked[:2], *free], 2)) == ["a"]
    assert names(to_delete([*asked, *free], 2)) == ["a", "b"]
    assert names(to_delete([*asked, *asked, *free], 2)) == ["a", "b"], "the newest stays"


def test_files_of_a_profile_go_together_and_those_of_other_ranks_stay(tmp_path):
    folder = tmp_path / "profiles"
    folder.mkdir()
    for name, rank, wall in (("old", 0, 1.0), ("new", 0, 2.0), ("other", 1, 0.0)):
        trace = folder / "plugins" / name / f"{name}.pb"
        trace.parent.mkdir(parents=True)
        trace.write_text("x")
        facts = {
            "rank": rank,
            "wall": wall,
            "cause": "schedule",
            "path": f"profiles/plugins/{name}/{name}.pb",
        }
        (folder / f"{name}.profile.json").write_text(json.dumps(facts))
        (folder / f"{name}.summary.json").write_text("{}")
    assert bound(folder, tmp_path, 0, 1) == 0
    left = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    assert left == [
        "new.profile.json", "new.summary.json", "other.profile.json", "other.summary.json",
        "plugins/new/new.pb", "plugins/other/other.pb",
    ]  # fmt: skip


def test_a_profile_whose_facts_are_damaged_is_left_alone(tmp_path):
    (tmp_path / "a.profile.json").write_text("{")
    assert bound(tmp_path, tmp_path, 0, 1) == 0
    assert (tmp_path / "a.profile.json").exists()


@pytest.mark.parametrize(
    "place", ["../../elsewhere", "{outside}", "link", "link/part", "../checkpoints", ".", ""]
)
def test_a_planted_record_deletes_nothing_but_profiles(tmp_path, place):
    """Who may write into the folder of profiles may not have the training delete what the training owns."""
    run, outside = tmp_path / "logs" / "run", tmp_path / "elsewhere"
    folder = run / "profiles"
    for path in (folder, outside / "part", run / "checkpoints"):
        path.mkdir(parents=True)
        (path / "precious").write_text("x")
    (folder / "link").symlink_to(outside)
    path = place.format(outside=outside)
    for wall, name in enumerate(["*", "old", "new"]):
        facts = {
            "rank": 0,
            "wall": wall,
            "cause": "schedule",
            "path": f"profiles/{path}" if path[:1] != "/" else path,
        }
        (folder / f"{name}.profile.json").write_text(json.dumps(facts))
    (folder / "asked.profile.json").write_text(
        json.dumps({"rank": 0, "cause": "request", "path": "profiles/a"})
    )
    bound(folder, run, 0, 1)
    left = sorted(each.relative_to(tmp_path).as_posix() for each in tmp_path.rglob("*") if each.is_file())
    assert left == [
        "elsewhere/part/precious", "logs/run/checkpoints/precious", "logs/run/profiles/asked.profile.json",
        "logs/run/profiles/new.profile.json", "logs/run/profiles/precious",
    ]  # fmt: skip


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
