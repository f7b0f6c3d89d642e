"""All ranks of a job on the page: their profiles as one session, and what the dumps of a hang say."""

import json
import shutil

import pytest
from support.recordings import recorded


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Eight ranks of one capture, dumps of a job that hangs, and captures of four ranks at two steps."""
    log = tmp_path_factory.mktemp("log")
    shutil.copytree(recorded("traces/dlrm_8xv100"), log / "dlrm")
    shutil.copytree(recorded("traces/flight_recorder") / "gpu_error_1st", log / "hang")
    (log / "job" / "profiles").mkdir(parents=True)
    for step in (500, 1000):
        for rank, role in enumerate(("chief", "worker", "worker", "worker")):
            event = {"ph": "X", "cat": "cpu_op", "name": f"aten::add{rank}", "pid": 1, "tid": 1, "ts": 10,
                     "dur": 50}  # fmt: skip
            trace = {"schemaVersion": 1, "traceEvents": [event]}
            place = log / "job" / "profiles" / f"{role}_rank{rank}_step{step:08d}.json"
            place.write_text(json.dumps(trace))
    return log


def test_profiles_of_all_ranks_say_who_is_waited_for_and_lead_to_it(opened):
    page = opened("#/profile?prof=dlrm&show=job")
    page.get_by_role("region", name="Who waits for whom").get_by_text(
        "Rank 7 makes the others wait"
    ).wait_for()
    blame = page.get_by_role("region", name="Blame")
    assert blame.get_by_role("row").nth(1).inner_text().split("\t")[1] == "7"
    page.get_by_role("region", name="Clocks").get_by_role("row").nth(8).wait_for()
    page.get_by_role("region", name="What if").get_by_role("row", name="Rank 7 like the median").wait_for()
    blame.get_by_role("button").filter(has_text="DistributedDataParallel.forward").click()
    page.wait("() => /show=timeline/.test(location.hash) && /find=Distributed/.test(location.hash)")


def test_waiting_is_summed_by_module_and_cause_and_the_path_leads_across_ranks(opened):
    page = opened("#/profile?prof=dlrm&show=job").page
    blame = page.get_by_role("region", name="Blame")
    switch = blame.get_by_role("group", name="Summed by")
    switch.get_by_role("button", name="Module").wait_for()
    assert switch.get_by_role("button").all_inner_texts() == [
        "Rank",
        "Module",
        "Cause",
    ]  # no stacks, one host
    switch.get_by_role("button", name="Cause").click()
    blame.get_by_role("columnheader", name="Cause").wait_for()
    cells = [row.inner_text().split("\t") for row in blame.get_by_role("row").all()[1:]]
    shares = [float(row[-1].replace("%", "").replace("\u202f", "").strip()) for row in cells]
    assert sum(shares) == pytest.approx(100, abs=0.1 * len(shares))
    assert shares == sorted(shares, reverse=True)
    path = page.get_by_role("region", name="Critical path across ranks")
    assert path.get_by_role("row").nth(1).inner_text().split("\t")[1] == "7"
    transfers = page.get_by_role("region", name="Waiting and transferring")
    transfers.get_by_text("NVLink 2 carries 150 GB/s in one direction").wait_for()


def test_dumps_of_a_hang_say_the_finding_and_nothing_else(opened):
    page = opened("#/profile?prof=hang")
    page.get_by_text("Ranks 12 and 14 are what the job waits for").wait_for()
    suspects = page.get_by_role("region", name="Suspects")
    suspects.get_by_text("Rank 12: device stopped").wait_for()
    assert suspects.get_by_role("list").first.locator("> li").count() == 2
    assert page.get_by_text("nothing found").count() == 0


def test_four_ranks_of_one_capture_open_as_one_session(opened):
    page = opened("#/profile?prof=job/profiles/rank*_step00000500.json&show=timeline")
    for rank in range(4):
        page.get_by_text(f"Rank {rank}, ").first.wait_for()
    shown = page.get_by_label("Profile", exact=True).locator("option:checked")
    assert shown.inner_text() == "step 500, 4 ranks"
    page.get_by_role("button", name="Ranks", exact=True).wait_for()


def test_a_profile_of_one_rank_has_no_ranks_to_show(opened):
    watched = opened("#/profile?prof=job/profiles/chief_rank0_step00000500.json")
    watched.page.get_by_text("Where the time of a step goes").first.wait_for()
    assert watched.page.get_by_role("button", name="Ranks", exact=True).count() == 0


@pytest.mark.slow
def test_axe_finds_nothing(opened, axe):
    page = opened("#/profile?prof=dlrm&show=job")
    for show, text in (("dlrm&show=job", "makes the others wait"), ("hang", "Suspects")):
        page.open(f"#/profile?prof={show}")
        page.get_by_text(text).first.wait_for()
        axe(page, show)


def test_profiles_are_told_apart_by_their_names(opened):
    page = opened("#/profile?prof=hang").page
    options = page.get_by_label("Profile", exact=True).locator("option")
    options.first.wait_for(state="attached")
    names = options.all_inner_texts()
    assert len(names) == len(set(names)) > 14
    assert sum(name.startswith("hang/") for name in names) >= 14, "each dump by its path"


def test_what_is_said_of_parameter_servers(tmp_path, serve, watch):
    shutil.copytree(recorded("tf_estimator/distributed"), tmp_path / "log" / "estimator")
    page = watch(serve(tmp_path / "log", "--no-cache"), "#/profile?prof=estimator&show=job")
    verdict = page.get_by_role("region", name="Who waits for whom")
    verdict.get_by_text("No parameter server stands out").wait_for()
    table = page.get_by_role("region", name="Workers and parameter servers")
    assert table.get_by_role("rowheader").all_inner_texts() == [
        "chief:0", "worker:0", "worker:1", "worker:2", "worker:3", "ps:0", "ps:1"
    ]  # fmt: skip

    def held_up(route):
        answer = route.fetch()
        job = answer.json()
        for task in job["tasks"]:
            if task["task"] == "ps:1":
                task.update(bottleneck=True, holds_ratio=0.4)
        route.fulfill(response=answer, json=job)

    page.route("**/api/v1/profile/ranks?*", held_up)
    page.reload()
    verdict.get_by_text("ps:1 makes the workers wait for 40").wait_for()
