"""Notes, views and kinds of metrics are written nowhere but below the log directory."""

import pytest

from stepscope.errors import LogDirectoryError
from stepscope.store.annotations.metrics import correct
from stepscope.store.annotations.notes import Notes
from stepscope.store.annotations.views import SavedViews
from stepscope.store.captures import REQUESTS, ask

WRITES = {
    "runs": lambda logs: Notes(logs).change("a", title="new"),
    "views": lambda logs: SavedViews(logs).save("a", "#/scalars"),
    "metrics": lambda logs: correct(logs, "loss", kind="loss"),
}


@pytest.mark.parametrize("part", WRITES)
@pytest.mark.parametrize("whole", [True, False], ids=["the folder is a link", "one in it is"])
def test_a_link_that_leads_out_is_not_followed(tmp_path, part, whole):
    logs, outside = tmp_path / "logs", tmp_path / "outside"
    logs.mkdir()
    (outside / part).mkdir(parents=True)
    (outside / part / "a.json").write_text("precious")
    own = logs / ".stepscope"
    if whole:
        own.symlink_to(outside)
    else:
        own.mkdir()
        (own / part).symlink_to(outside / part)
    with pytest.raises(LogDirectoryError, match="lies outside"):
        WRITES[part](logs)
    with pytest.raises(LogDirectoryError, match="lies outside"):
        SavedViews(logs).remove("a") if part == "views" else WRITES[part](logs)
    assert [path.name for path in outside.rglob("*") if path.is_file()] == ["a.json"]
    assert (outside / part / "a.json").read_text() == "precious"


def test_a_request_for_a_profile_is_left_in_the_run_alone(tmp_path):
    run, outside = tmp_path / "run", tmp_path / "outside"
    run.mkdir()
    outside.mkdir()
    (run / REQUESTS).parent.mkdir(parents=True, exist_ok=True)
    (run / REQUESTS).symlink_to(outside)
    with pytest.raises(LogDirectoryError, match="lies outside"):
        ask(run, num_steps=1)
    assert not list(outside.iterdir())
