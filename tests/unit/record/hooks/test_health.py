"""HealthHook: what it does when something is wrong. That it finds it is tests/unit/health's."""

import json
import threading
from dataclasses import replace
from time import monotonic

import pytest
from support.clock import Time
from support.servers import Handler, serving

import stepscope as ss
from stepscope import store
from stepscope.errors import UsageError
from stepscope.record.findings import Webhook
from stepscope.record.hooks.health import HealthHook


def train(directory, hook, losses, *, step_s=1.0, **options):
    """Log losses, a second apart; return the run and the steps taken."""
    time, taken, slowly = Time(), [], options.pop("slowly", False)
    clock = time.clock
    with ss.Run(directory, hooks=[hook, *options.pop("more", ())], _clock=clock, **options) as run:
        for loss in run.steps(losses):
            run.scalar("train/loss", loss)
            time.now += step_s
            taken.append(run.current_step)
            if slowly:
                run.flush()
    return run, taken


BAD = [1.0, 0.9, float("nan"), *[0.8] * 20]


def test_a_finding_is_written_for_programs_and_for_people(tmp_path):
    train(tmp_path, HealthHook(), [*BAD, *[0.7] * 100])
    with store.open(tmp_path, cache=False) as log:
        run = log.run(".")
        [found] = run.findings
        texts = [series[0] for series in run.record("health/nonfinite-loss")]
        events = sum(len(series) for series in run.record("stepscope/finding"))
    assert (found.rule, found.severity, found.step, found.closed_step) == ("nonfinite-loss", "high", 2, 102)
    assert found.values == {"value": "NaN", "last_finite": pytest.approx(0.9)}
    assert events == 2  # it opened, and it closed
    assert "the loss is NaN at step 2" in str(texts[0])


def test_tensorboard_shows_the_text_where_all_stands_in_one_file(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for own_file in (True, False):
        train(tmp_path / str(own_file), HealthHook(), BAD, own_file=own_file)
    accumulator = EventAccumulator(str(tmp_path / "False"))
    accumulator.Reload()
    assert "health/nonfinite-loss" in accumulator.Tags()["tensors"]
    assert accumulator.SummaryMetadata("health/nonfinite-loss").plugin_data.plugin_name == "text"
    accumulator = EventAccumulator(str(tmp_path / "True"))
    accumulator.Reload()
    assert not [
        tag
        for tags in accumulator.Tags().values()
        if isinstance(tags, list)
        for tag in tags
        if "health" in tag
    ]


def test_a_function_is_called_with_what_is_severe_enough(tmp_path):
    told = []
    train(tmp_path, HealthHook(call=told.append), BAD)
    assert [finding.rule for finding in told] == ["nonfinite-loss"]
    told.clear()
    labels = HealthHook(call=told.append)
    with ss.Run(tmp_path / "b", hooks=[labels]) as run:
        for step in run.steps(range(20)):
            run.scalars({"labels/0": 100 + step, "labels/1": 1.0})
    assert told == []  # class-imbalance is of low severity
    assert [finding.rule for finding in labels.findings] == ["class-imbalance"]


def test_what_an_action_raises_is_told_and_the_finding_is_written(tmp_path, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    with pytest.warns(RuntimeWarning, match="call raised ZeroDivisionError"):
        train(tmp_path, HealthHook(call=lambda finding: 1 / 0), BAD)
    with store.open(tmp_path, cache=False) as log:
        assert len(log.run(".").findings) == 1


def stopped(tmp_path, **options):
    """Train until the hook stops it, each step heard of before the next."""
    time, hook = Time(), HealthHook(**options)
    with ss.Run(tmp_path, hooks=[hook], _clock=time.clock) as run:
        for step in run.steps(range(50)):
            run.scalar("train/loss", float("nan") if step == 5 else 1.0)
            time.now += 1.0
            run.flush()
    return run


def test_it_stops_the_run(tmp_path):
    run = stopped(tmp_path, stop=True)
    assert run.current_step <= 10
    assert run.stop_reason.startswith("nonfinite-loss: the loss is NaN at step 5")
    assert stopped(tmp_path / "b", stop=["loss-spike"]).current_step == 49


def test_a_checkpoint_is_asked_for_in_the_training_thread(tmp_path):
    saved, time = [], Time()
    hook = HealthHook(
        severity="low", checkpoint=lambda done: saved.append((done, threading.current_thread()))
    )
    with ss.Run(tmp_path, hooks=[hook], _clock=time.clock) as run:
        for _ in run.steps(range(20)):
            run.scalars({"labels/0": 100.0, "labels/1": 1.0})
            time.now += 1.0
            run.flush()
    [(done, thread)] = saved
    assert done <= 20
    assert thread is threading.current_thread()


def test_a_broken_model_is_not_saved_and_the_last_good_one_is_named(tmp_path):
    saved, kept = [], []

    def save(done):
        kept.append(done)
        return f"ckpt/{done}.pt"

    hook = HealthHook(checkpoint=saved.append)
    losses = [1.0 - step / 100 for step in range(25)] + [float("nan")] * 20
    _, _ = train(tmp_path, hook, losses, more=[ss.CheckpointHook(save, every_n_steps=10)], slowly=True)
    assert saved == []
    assert kept == [10, 20, 30, 40, 45]
    with store.open(tmp_path, cache=False) as log:
        [written] = log.run(".").findings
    [found] = hook.findings
    assert found.rewind == written.rewind
    assert written.rewind[0].startswith("last good checkpoint: ckpt/20.pt, after 20 steps")
    assert "start_step=20" in written.rewind[1]


def test_without_an_earlier_checkpoint_none_is_named(tmp_path):
    hook = HealthHook()
    train(tmp_path, hook, BAD)
    [found] = hook.findings
    assert found.rewind[0].startswith("no checkpoint from before step 2 is known")


def test_the_batch_in_which_it_began_is_written(tmp_path):
    hook, time = HealthHook(), Time()
    with ss.Run(tmp_path, hooks=[hook], _clock=time.clock) as run:
        for step in run.steps(range(60)):
            run.batch([3 * step, 3 * step + 1], epoch=1, sampler={"seed": 7, "at": step})
            run.scalar("train/loss", float("nan") if step == 40 else 1.0 - step / 100)
            time.now += 1.0
    with store.open(tmp_path, cache=False) as log:
        [written] = log.run(".").findings
    assert written.batches == (
        {"step": 39, "indices": [117, 118], "epoch": 1, "sampler": {"seed": 7, "at": 39}},
        {"step": 40, "indices": [120, 121], "epoch": 1, "sampler": {"seed": 7, "at": 40}},
    )
    assert hook.findings[0].batches == written.batches


def test_actions_run_once_for_a_finding_that_further_layers_join(tmp_path):
    told, time = [], Time()
    with ss.Run(tmp_path, hooks=[HealthHook(severity="low", call=told.append)], _clock=time.clock) as run:
        for step in run.steps(range(60)):
            run.scalar("activations/a/dead_ratio", 0.9)
            run.scalar("activations/b/dead_ratio", 0.9 if step > 30 else 0.0)
            time.now += 1.0
            run.flush()
    assert [finding.rule for finding in told] == ["dead-relu"]
    with store.open(tmp_path, cache=False) as log:
        [written] = log.run(".").findings
    assert written.also == ("b",)


class Profiler(ss.Hook):
    """Notes what it is asked to capture."""

    def __init__(self):
        self.asked = []

    def request_capture(self, reason, facts=None):
        self.asked.append(reason)
        assert facts["rule"] == "nonfinite-loss"
        return True


def test_a_capture_is_asked_of_the_hooks_that_can(tmp_path):
    profiler, reasons = Profiler(), []
    train(tmp_path, HealthHook(capture=True), BAD, more=[profiler], slowly=True)
    assert profiler.asked == ["nonfinite-loss: the loss is NaN at step 2"]
    train(tmp_path / "b", HealthHook(capture=reasons.append), BAD)
    assert reasons == profiler.asked


@pytest.mark.parametrize(("severity", "captured"), [("medium", 1), ("low", 0)])
def test_a_capture_is_asked_from_medium_on_and_the_rest_as_given(tmp_path, monkeypatch, severity, captured):
    first = HealthHook()
    train(tmp_path, first, BAD)
    asked, called = [], []
    hook = HealthHook(capture=asked.append, call=called.append)
    with ss.Run(tmp_path / "b", hooks=[hook]) as run:
        found = [replace(first.findings[0], severity=severity)]
        with monkeypatch.context() as patched:
            patched.setattr(type(hook._monitor), "news", lambda _: found)
            hook._tell(run)
    assert (len(asked), called) == (captured, [])


def test_each_action_runs_once_when_a_finding_becomes_severe_enough(tmp_path, monkeypatch):
    first = HealthHook()
    train(tmp_path, first, BAD)
    asked, called, counts = [], [], []
    hook = HealthHook(capture=asked.append, call=called.append)
    with ss.Run(tmp_path / "b", hooks=[hook]) as run, monkeypatch.context() as patched:
        for severity in ("low", "medium", "high", "high", "medium"):
            findings = [replace(first.findings[0], severity=severity)]
            patched.setattr(type(hook._monitor), "news", lambda _, findings=findings: findings)
            hook._tell(run)
            counts.append((len(asked), len(called)))
        patched.undo()
    assert counts == [(0, 0), (1, 0), (1, 1), (1, 1), (1, 1)]


def test_a_finding_makes_the_profiler_capture_the_steps_that_follow(tmp_path):
    profiler = ss.ProfilerHook(num_steps=2, backend="python", analyse=False)
    train(tmp_path, HealthHook(capture=True), BAD, more=[profiler], slowly=True)
    [path] = (tmp_path / "profiles").glob("*.profile.json")
    pointer = json.loads(path.read_text())
    assert "nonfinite-loss: the loss is NaN at step 2" in json.dumps(pointer)
    assert pointer["failure"] is None
    assert pointer["steps"][0] > 2


def test_a_training_at_work_that_records_nothing_does_not_stall(tmp_path):
    from stepscope.record.hooks.health import place_of

    time, hook = Time(), HealthHook()
    gates = [threading.Event(), threading.Event()]

    def work():
        gates[0].wait(60)
        gates[1].wait(60)

    worker = threading.Thread(target=work)
    worker.start()
    with ss.Run(tmp_path, hooks=[hook], _clock=time.clock) as run:
        for step in run.steps(range(20)):
            run.scalar("train/loss", 1.0 - 0.01 * step)
            time.now += 1.0
            if step == 15:
                run.flush()
                hook._over.set()  # nobody but this test looks
                hook._watcher.join()
                hook._trainer = worker.ident
                hook.look(time.now + 60)
                before = place_of(worker.ident)
                gates[0].set()
                deadline, same, seen = monotonic() + 60, 0, before
                while same < 1_000:  # until it stands at the second gate
                    place = place_of(worker.ident)
                    same = same + 1 if place == seen and gates[1]._cond._waiters else 0
                    seen = place
                    assert monotonic() < deadline
                hook.look(time.now + 479)
                hook.look(time.now + 700)
                assert hook.findings == []
                hook.look(time.now + 1_190)
                [finding] = hook.findings
                gates[1].set()
    worker.join()
    assert finding.rule == "stalled-training"
    assert any(line.endswith(" work") for line in finding.stack)


def test_a_stall_is_seen_while_it_lasts_and_says_where_the_training_stands(tmp_path):
    time, hook = Time(), HealthHook()
    with ss.Run(tmp_path, hooks=[hook], _clock=time.clock) as run:
        for step in run.steps(iter(range(20))):
            run.scalar("train/loss", 1.0 - 0.01 * step)
            time.now += 1.0
            if step == 15:
                run.flush()
                hook.look(time.now + 470)
                assert hook.findings == []
                hook.look(time.now + 490)
                [finding] = hook.findings
                time.now += 900
    assert finding.rule == "stalled-training"
    assert finding.is_open
    assert "test_a_stall_is_seen_while_it_lasts" in finding.stack[-1] + finding.stack[-2] + finding.stack[-3]
    with store.open(tmp_path, cache=False) as log:
        [written] = log.run(".").findings
    assert written.stack == finding.stack
    assert (written.step, written.closed_step) == (15, 15)


def test_no_stall_after_the_last_step_of_a_known_number(tmp_path):
    time, hook = Time(), HealthHook()
    with ss.Run(tmp_path, hooks=[hook], _clock=time.clock) as run:
        for step in run.steps(range(20)):
            run.scalar("train/loss", 1.0 - step / 100)
            time.now += 1.0
        run.flush()
        hook.look(time.now + 5_000)
    assert hook.findings == []


def test_what_the_machine_says_of_itself_is_no_sign_of_life(tmp_path):
    time, hook = Time(), HealthHook()
    with ss.Run(tmp_path, hooks=[hook], _clock=time.clock) as run:
        for _ in run.steps(iter(range(20))):
            run.scalar("train/loss", 1.0)
            time.now += 1.0
        for _ in range(70):
            time.now += 10.0
            run.scalar("system/host/cpu_ratio", 0.1)
        run.flush()
        hook.look(time.now)
        assert [finding.rule for finding in hook.findings] == ["stalled-training"]


class Listener(Handler):
    """Takes what is posted; answers what the server says."""

    def do_POST(self):
        self.server.heard.append((self.headers, json.loads(self.body())))
        self.answer(self.server.answer, Location="http://127.0.0.1:9/elsewhere")


@pytest.fixture
def listener():
    with serving(Listener) as server:
        server.heard, server.answer = [], 200
        server.url = f"http://127.0.0.1:{server.server_port}/hook"
        yield server


def test_a_webhook_gets_the_finding(tmp_path, listener):
    train(tmp_path, HealthHook(webhook=Webhook(listener.url, headers={"X-Key": "k"})), BAD)
    [(headers, body)] = listener.heard
    assert headers["X-Key"] == "k"
    assert (body["rule"], body["step"], body["values"]["value"]) == ("nonfinite-loss", 2, "NaN")
    assert body["log_dir"] == str(tmp_path)


@pytest.mark.parametrize("answer", [403, 302])
def test_a_refusal_is_told_once_and_not_repeated(tmp_path, listener, answer, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    listener.answer = answer
    with pytest.warns(RuntimeWarning, match=f"a finding was not posted: 127.0.0.1 answered {answer}"):
        run, _ = train(tmp_path, HealthHook(webhook=listener.url), BAD)
    assert len(listener.heard) == 1
    assert run.problems["webhook"] == 1


def test_a_failing_server_is_asked_three_times(listener, monkeypatch):
    from stepscope.record import findings
    from stepscope.record.problems import Problems

    monkeypatch.setattr(findings, "PAUSE_S", 0.001)
    listener.answer = 503
    hook, problems = Webhook(listener.url), Problems()
    hook.start(problems)
    hook.put({"a": 1})
    hook.end(5.0)
    assert len(listener.heard) == 3
    assert problems.counts["webhook"] == 1


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://host/a", "http://", "hook", 3, ""])
def test_only_http_addresses(url):
    with pytest.raises(UsageError):
        Webhook(url)


def test_an_address_is_not_shown():
    assert "secret" not in repr(Webhook("https://user:secret@example.org/secret"))


@pytest.mark.parametrize(
    "options",
    [
        {"rules": {"loss-spikes": False}},
        {"rules": {"loss-spike": {"zz": 1}}},
        {"roles": {"a": "los"}},
        {"severity": "worst"},
        {"stop": ["loss-spikes"]},
        {"call": 3},
        {"ranks": "one"},
    ],
    ids=str,
)
def test_what_cannot_be_right_is_refused_at_once(options):
    with pytest.raises(UsageError):
        HealthHook(**options)


def test_rules_are_switched_off_and_series_named(tmp_path):
    hook = HealthHook(rules={"nonfinite-loss": False}, roles={"objective": "loss"})
    train(tmp_path, hook, BAD)
    assert hook.findings == []
    hook = HealthHook(roles={"objective": "loss"})
    with ss.Run(tmp_path / "b", hooks=[hook]) as run:
        run.scalar("objective", float("nan"), 3)
    assert [(finding.rule, finding.tag) for finding in hook.findings] == [("nonfinite-loss", "objective")]


def test_every_rank_may_judge_by_itself_and_only_the_chief_writes(tmp_path):
    hook = HealthHook(ranks="all")
    train(tmp_path, hook, BAD, rank=1, world_size=2)
    [finding] = hook.findings
    assert finding.rank == 1
    # That it was the first is nothing that this rank can know.
    assert finding.summary.endswith(", on rank 1")
    assert not list(tmp_path.glob("*tfevents*"))
