"""Logs of other tools: steps, times and series of each format, also of files that the trackers wrote."""

import json
import lzma
import math
import os
import random
from datetime import datetime, timezone
from pathlib import Path

import pytest
from support.recordings import recorded
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import stepscope as ss
from stepscope.adopt import Log, logs_in, logs_of, places, write
from stepscope.cli import main
from stepscope.errors import LogDirectoryError

WRITTEN = 1_700_000_000.0
"""When the last row of each file here was written."""

LIGHTNING = """\
epoch,step,train_loss,val_acc
0,9,0.9,
0,19,0.7,
0,19,,0.5
1,29,0.4,
1,39,0.3,
1,39,,0.8
"""
ULTRALYTICS = """\
                  epoch,                   time,         train/box_loss,       metrics/mAP50(B)
                      1,                 12.5,                    1.2,                   0.21
                      2,                 24.1,                    0.9,                   0.35
                      3,                 36.4,                    0.7,                   0.44
                      4,                 48.2,                    0.6,                   0.49
                      5,                 60.0,                    0.5,                   0.52
"""
SB3 = """\
rollout/ep_len_mean,rollout/ep_rew_mean,time/fps,time/iterations,time/time_elapsed,time/total_timesteps,train/loss
22.1,22.1,900,1,2,2048,
26.5,26.5,700,2,5,4096,6.1
35.0,35.0,650,3,9,6144,12.7
"""
MONITOR = (
    '#{"t_start": 1699999000.0, "env_id": "CartPole-v1"}\nr,l,t\n12.0,12,0.5\n19.0,19,0.9\n31.0,31,1.4\n'
)
KERAS = "epoch,accuracy,loss,val_loss\n0,0.4,1.6,1.5\n1,0.6,1.1,1.2\n2,0.7,0.8,1.0\n"
BATCHES = "epoch,batch,loss\n0,0,2.0\n0,1,1.8\n0,2,1.6\n1,0,1.5\n1,1,1.4\n1,2,1.2\n"
TENSORBOARD = "Wall time,Step,Value\n1699999000.5,0,0.9\n1699999001.5,10,0.5\n1699999002.5,20,0.4\n"
LONG = "run,tag,writer,attempt,step,wall_time,value\na,loss,h,1,0,1699999000.5,1.0\n"
LONG += "a,loss,h,1,1,1699999001.5,0.5\n"
LONG += "a,acc,h,1,0,1699999000.6,0.1\nb,loss,h,1,0,1699999002.5,2.0\nb,loss,h,1,5,1699999003.5,nan\n"
TRAINER_STATE = json.dumps(
    {
        "best_metric": None,
        "global_step": 20,
        "log_history": [
            {"epoch": 0.5, "grad_norm": 2.1, "learning_rate": 5e-05, "loss": 1.2, "step": 10},
            {"epoch": 1.0, "eval_loss": 0.9, "eval_runtime": 2.5, "step": 20},
            {"epoch": 1.0, "loss": 0.8, "step": 20},
        ],
    }
)
MMENGINE = "".join(
    json.dumps(row) + "\n"
    for row in (
        {"env_info": "sys.platform: linux", "seed": 0},
        {"mode": "train", "epoch": 1, "iter": 50, "lr": 0.01, "loss": 1.9},
        {"mode": "train", "epoch": 1, "iter": 100, "lr": 0.01, "loss": 1.5},
        {"mode": "val", "epoch": 1, "iter": 100, "mAP": 0.3},
    )
)
HISTORY = json.dumps({"loss": [1.0, 0.5, 0.25], "val_accuracy": [0.5, 0.7, 0.8]})
CONSOLE = """\
2023-11-14 22:00:00,123 - INFO - start, batch_size=32
2023-11-14 22:00:01,000 - INFO - step 10: train loss 0.90
2023-11-14 22:00:02,000 - INFO - step 20: train loss 0.70
2023-11-14 22:00:03,500 - INFO - step 30: train loss 0.65, val loss 0.8
"""
CASES = [
    ("metrics.csv", LIGHTNING, "step", "", [("train_loss", 9, 0.9), ("val_acc", 39, 0.8), ("epoch", 29, 1)]),
    (
        "results.csv",
        ULTRALYTICS,
        "epoch",
        "time",
        [("train/box_loss", 5, 0.5), ("metrics/mAP50(B)", 1, 0.21)],
    ),
    (
        "progress.csv",
        SB3,
        "time/total_timesteps",
        "time/time_elapsed",
        [("rollout/ep_rew_mean", 2048, 22.1), ("train/loss", 6144, 12.7), ("time/fps", 4096, 700)],
    ),
    ("monitor.csv", MONITOR, "", "", [("r", 2, 31.0), ("l", 0, 12)]),
    ("training.csv", KERAS, "epoch", "", [("loss", 0, 1.6), ("val_loss", 2, 1.0)]),
    (
        "batches.tsv",
        BATCHES.replace(",", "\t"),
        "batch",
        "",
        [("loss", 0, 2.0), ("loss", 4, 1.2), ("epoch", 3, 1)],
    ),
    ("run-a-tag-loss.csv", TENSORBOARD, "Step", "Wall time", [("run-a-tag-loss", 10, 0.5)]),
    (
        "trainer_state.json",
        TRAINER_STATE,
        "step",
        "",
        [("loss", 10, 1.2), ("eval_loss", 20, 0.9), ("epoch", 10, 0.5)],
    ),
    (
        "scalars.json",
        MMENGINE,
        "iter",
        "",
        [("train/loss", 50, 1.9), ("val/mAP", 100, 0.3), ("epoch", 100, 1)],
    ),
    ("history.json", HISTORY, "", "", [("loss", 1, 0.5), ("val_accuracy", 2, 0.8)]),
    ("train.log", CONSOLE, "step", "timestamp", [("train_loss", 10, 0.9), ("val_loss", 30, 0.8)]),
]


def given(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    os.utime(path, (WRITTEN, WRITTEN))
    return path


def points(log: Log) -> list[tuple[str, int, float]]:
    return [(tag, row.step, value) for row in log.rows for tag, value in row.values.items()]


@pytest.mark.parametrize(
    ("name", "content", "steps_by", "times_by", "some"), CASES, ids=[case[0] for case in CASES]
)
def test_a_file_says_its_steps_times_and_series(tmp_path, name, content, steps_by, times_by, some):
    (log,) = logs_of(given(tmp_path, name, content))
    assert (log.steps_by, log.times_by) == (steps_by, times_by)
    assert set(some) <= set(points(log))
    assert log.name == f"{tmp_path.name}/{Path(name).stem}"
    assert {"step", steps_by, times_by}.isdisjoint(log.tags)


def test_times_are_those_of_the_file(tmp_path):
    (elapsed,) = logs_of(given(tmp_path, "results.csv", ULTRALYTICS))
    assert [row.wall_time for row in elapsed.rows[-2:]] == [WRITTEN - 60 + 48.2, WRITTEN]
    (stamped,) = logs_of(given(tmp_path, "train.log", CONSOLE))
    assert stamped.rows[-1].wall_time == datetime(2023, 11, 14, 22, 0, 3, 500_000).timestamp()
    (none,) = logs_of(given(tmp_path, "training.csv", KERAS))
    assert {row.wall_time for row in none.rows} == {WRITTEN}


def test_short_tables_of_durations_tell_no_time(tmp_path):
    (log,) = logs_of(given(tmp_path, "a.csv", "epoch,time,loss\n1,1.0,0.5\n2,1.2,0.4\n3,1.3,0.3\n"))
    assert log.times_by == ""
    assert ("time", 2, 1.2) in points(log)


def test_a_setting_that_grows_counts_no_steps(tmp_path):
    (log,) = logs_of(given(tmp_path, "a.csv", "length,loss\n8,0.5\n8,0.4\n16,0.3\n16,0.2\n"))
    assert log.steps_by == ""
    assert ("length", 2, 16) in points(log)


def test_a_count_without_a_name_rises_evenly(tmp_path):
    (log,) = logs_of(given(tmp_path, "a.csv", "n,best,loss\n5,1,0.5\n10,3,0.4\n15,4,0.3\n"))
    assert log.steps_by == "n"
    assert ("best", 10, 3) in points(log)


def test_a_rate_and_a_loss_of_a_step_count_nothing(tmp_path):
    """Their names have words for counts; Lightning calls a loss of one step so."""
    content = "best,tokens_per_second,loss_step\n7,100,3\n9,110,4\n12,120,5\n"
    (log,) = logs_of(given(tmp_path, "a.csv", content))
    assert log.steps_by == ""
    assert {("tokens_per_second", 1, 110), ("loss_step", 2, 5)} <= set(points(log))


def test_each_series_of_a_long_table_counts_its_own_steps(tmp_path):
    first, second = logs_of(given(tmp_path, "all.csv", LONG), "all")
    assert (first.name, second.name) == ("all/a", "all/b")
    assert points(first) == [("loss", 0, 1.0), ("acc", 0, 0.1), ("loss", 1, 0.5)]
    assert [(step, math.isnan(value)) for _, step, value in points(second)] == [(0, False), (5, True)]
    assert first.left_out == dict.fromkeys(["writer", "attempt"], "it stands beside the value")


def test_a_resumed_table_keeps_its_steps(tmp_path):
    (log,) = logs_of(given(tmp_path, "a.csv", "step,loss\n100,0.5\n200,0.4\n300,0.3\n200,0.4\n300,0.3\n"))
    assert [row.step for row in log.rows] == [100, 200, 300, 200, 300]


def test_texts_beside_numbers_are_left_out_and_said(tmp_path):
    (log,) = logs_of(given(tmp_path, "a.csv", "step,loss,note\n1,0.5,warm\n2,-,cold\n3,nan,\n"))
    assert log.left_out == {"loss": "1 of its values is text", "note": "2 of its values are text"}
    assert [(tag, step) for tag, step, _ in points(log)] == [("loss", 1), ("loss", 3)]


def test_a_torn_last_line_costs_only_itself(tmp_path):
    (log,) = logs_of(
        given(tmp_path, "a.jsonl", '{"step": 1, "loss": 0.5}\n{"step": 2, "loss": 0.4}\n{"step": 3, "lo')
    )
    assert [row.step for row in log.rows] == [1, 2]


def packed(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_bytes(lzma.decompress(recorded(f"trackers/{name}.xz").read_bytes()))
    return path


@pytest.mark.parametrize(
    ("source", "settings"),
    [
        ("mlp.wandb", {"lr": 0.1, "model": {"width": 64}}),
        ("mlflow.db", {"lr": 0.1, "width": 64}),
        ("trackio.db", {"lr": 0.1, "width": 64}),
        ("mlruns", {"lr": 0.1, "width": 64}),
    ],
)
def test_what_trackers_wrote(tmp_path, source, settings):
    path = recorded("trackers/mlruns") if source == "mlruns" else packed(tmp_path, source)
    logs, _ = logs_in(path)
    (log,) = logs
    assert log.settings == settings
    assert "mlp" in log.name
    by_tag = {tag: {step: value for name, step, value in points(log) if name == tag} for tag in log.tags}
    assert by_tag["train/loss"] == {step: pytest.approx(math.exp(-step / 4)) for step in range(12)}
    accuracies = by_tag["val/acc"]
    # MLflow's database and trackio's keep NaN in ways of their own; it is a point all the same.
    assert math.isnan(accuracies.pop(5))
    assert accuracies == {step: pytest.approx(1 - math.exp(-step / 4)) for step in range(12) if step != 5}
    assert all(row.wall_time > datetime(2026, 11, 1, tzinfo=timezone.utc).timestamp() for row in log.rows)


def test_a_killed_run_of_wandb_is_read_to_its_last_whole_record(tmp_path):
    path = packed(tmp_path, "mlp.wandb")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    (log,) = logs_of(path)
    assert 0 < len(log.rows) < 12
    assert log.settings == {"lr": 0.1, "model": {"width": 64}}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.csv", ""),
        ("names.csv", "step,loss\n"),
        ("numbers.csv", "1,2\n3,4\n5,6\n"),
        ("prose.txt", "The loss was 0.5 once.\nNothing else is here.\n"),
        ("package.json", '{"name": "page", "version": "1.0", "files": ["a", "b"]}'),
        ("binary.log", "\0\1\2"),
        ("broken.db", "SQLite format 3\0 and nothing more"),
    ],
)
def test_a_file_without_a_log_is_refused(tmp_path, name, content):
    with pytest.raises(LogDirectoryError) as caught:
        logs_of(given(tmp_path, name, content))
    assert caught.value.path == str(tmp_path / name)


def sources() -> list[tuple[str, bytes]]:
    folder = recorded("trackers")
    packed = [(path.stem, lzma.decompress(path.read_bytes())) for path in sorted(folder.glob("*.xz"))]
    return packed + [(name, content.encode()) for name, content, *_ in CASES]


@pytest.mark.parametrize(("name", "content"), sources(), ids=[name for name, _ in sources()])
def test_damage_gives_a_log_or_a_reason(tmp_path, name, content):
    chance = random.Random(name)
    path = tmp_path / name
    for attempt in range(40):
        damaged = bytearray(content)
        for _ in range(chance.randint(1, 8)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        path.write_bytes(damaged[: chance.randint(1, len(damaged))])
        try:
            logs = logs_of(path)
        except LogDirectoryError:
            continue
        for number, log in enumerate(logs):
            write(log, tmp_path / f"{attempt}-{number}")


@pytest.mark.parametrize(
    "content",
    [
        "step,loss\n1," + "9" * 400 + "\n2,0.5\n3,1e400\n",
        "step,loss\n" + "9" * 30 + ",1\n" + "9" * 31 + ",2\n",
        json.dumps([{"step": 10**400, "loss": 10**20}, {"step": 2, "loss": 0.5}]),
        "[" * 10**5,
        '{"loss": [1, 2], "deep": ' * 900 + "0" + "}" * 900,
        "[" + '{"a": ' * 900 + "0" + "}" * 900 + "]",
        "step,loss\n1,0.5\n2," + "x" * 200_000 + "\n",
    ],
)
def test_numbers_of_any_length_and_depth_do_no_harm(tmp_path, content):
    try:
        logs = logs_of(given(tmp_path, "a.csv", content))
    except LogDirectoryError:
        return
    for log in logs:
        write(log, tmp_path / "runs")


def test_a_directory_gives_its_logs_and_says_what_holds_none(tmp_path):
    given(tmp_path, "lightning_logs/version_0/metrics.csv", LIGHTNING)
    given(tmp_path, "data/iris.csv", "width,height,kind\n5.1,3.5,0\n4.9,3.0,0\n6.2,3.4,2\n")
    given(tmp_path, ".cache/metrics.csv", LIGHTNING)
    given(tmp_path, "tb/metrics.csv", LIGHTNING)
    with ss.Run(tmp_path / "tb" / "run") as run:
        run.scalar("loss", 1.0, 0)
    given(tmp_path, "tb/run/metrics.csv", LIGHTNING)
    logs, others = logs_in(tmp_path)
    assert [log.name for log in logs] == ["lightning_logs/version_0/metrics", "tb/metrics"]
    assert others == {
        str(tmp_path / "data" / "iris.csv"): "no field names a loss, a score or a count of steps"
    }


def test_a_written_run_is_read_by_us_and_by_tensorboard(tmp_path):
    (log,) = logs_of(packed(tmp_path, "mlp.wandb"), "mlp")
    where = tmp_path / "runs" / "mlp"
    write(log, where)
    (run,) = ss.open(tmp_path / "runs").runs()
    assert run.name == "mlp"
    assert run.info.config == {"lr": 0.1, "model.width": 64}
    series = run.series("train/loss")
    assert series.step.tolist() == list(range(12))
    assert series.wall_time.tolist() == [row.wall_time for row in log.rows]
    theirs = EventAccumulator(str(where)).Reload().Scalars("train/loss")
    assert [(event.step, event.wall_time) for event in theirs] == [
        (row.step, row.wall_time) for row in log.rows
    ]


def test_a_run_that_is_there_is_never_replaced(tmp_path):
    logs = logs_of(given(tmp_path, "metrics.csv", LIGHTNING), "a")
    assert places(logs * 2, tmp_path / "runs") == [tmp_path / "runs" / "a", tmp_path / "runs" / "a-2"]
    write(logs[0], tmp_path / "runs" / "a")
    with pytest.raises(LogDirectoryError, match="there already"):
        places(logs, tmp_path / "runs")


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("../../etc/cron", "etc/cron"),
        ("/etc/cron", "etc/cron"),
        ("a/./b", "a/b"),
        (".hidden", "_hidden"),
        ("a\x1b\nb", "a__b"),
        ("C:\\runs", "C__runs"),
        ("..", "run"),
        ("x" * 300, "x" * 100),
    ],
)
def test_no_name_leads_out_of_the_log_directory(tmp_path, name, place):
    assert places([Log(name, [])], tmp_path) == [tmp_path / place]


def test_the_command_says_how_it_read_each_file(tmp_path, capsys):
    source = given(tmp_path, "version_0/metrics.csv", LIGHTNING)
    assert main(["import", str(source), "--to", str(tmp_path / "runs")]) == 0
    assert capsys.readouterr().out == (
        "version_0/metrics: 12 points of 3 series; steps by step; no times, so all have that of the file\n"
        f"1 run in {tmp_path / 'runs'}; to look at it: stepscope serve {tmp_path / 'runs'}\n"
    )
    assert main(["import", str(source), "--to", str(tmp_path / "runs")]) != 0
    assert "a run of this name is there already" in capsys.readouterr().err
    assert main(["import", str(source), "--to", str(tmp_path / "runs"), "--name", "b", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["name"] == "b"
    assert main(["import", str(source), str(source), "--to", str(tmp_path / "runs"), "--name", "c"]) != 0
    assert "--name is for one run; there are 2" in capsys.readouterr().err


def test_no_speed_is_said_of_rows_without_times(tmp_path):
    (log,) = logs_of(given(tmp_path, "metrics.csv", LIGHTNING), "a")
    write(log, tmp_path / "runs" / "a")
    (run,) = ss.open(tmp_path / "runs").runs()
    assert run.steps_per_second is None
