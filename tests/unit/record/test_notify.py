"""Findings sent to services: by apprise, to a server of this machine."""

import base64
import io
import json
import logging
import sys
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from support.clock import Time
from support.errors import raises
from support.servers import Handler, serving

import stepscope as ss
from stepscope.errors import UsageError
from stepscope.health import Finding
from stepscope.record.findings import Notifier, chart

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # what apprise imports

SECRET = "s3cr3tpassw0rd"


class Service(Handler):
    """Keeps what it is sent."""

    def do_POST(self):
        self.server.seen.append(json.loads(self.body()))
        self.answer(self.server.code)


@pytest.fixture
def service():
    with serving(Service) as server:
        server.seen, server.code = [], 200
        server.address_text = f"json://user:{SECRET}@127.0.0.1:{server.server_port}/hook"
        yield server


def train(directory, notify, losses=(*[1.0 - step / 100 for step in range(30)], float("nan"), *[0.6] * 5)):
    time = Time()
    with ss.Run(directory, hooks=[ss.HealthHook(notify=notify)], _clock=time.clock) as run:
        for loss in run.steps(losses):
            run.scalar("train/loss", loss)
            time.now += 1.0
    return run


def test_a_finding_reaches_the_service_with_picture_and_link(tmp_path, service):
    train(tmp_path, Notifier(service.address_text, link="http://here:6006/#runs"))
    [message] = service.seen
    assert message["title"] == "Loss is not finite (high)"
    assert message["type"] == "failure"
    assert "the loss is NaN at step 30" in message["message"]
    assert message["message"].endswith("http://here:6006/#runs")
    [picture] = message["attachments"]
    image = Image.open(io.BytesIO(base64.b64decode(picture["base64"])))
    assert (image.format, image.size) == ("PNG", (640, 240))


def test_a_service_that_fails_is_told_without_its_secret(tmp_path, service, monkeypatch, caplog):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    service.code = 500
    with caplog.at_level(logging.DEBUG), pytest.warns(RuntimeWarning, match="was not sent to JSON") as told:
        run = train(tmp_path, service.address_text)
    assert run.problems["notify"] == 1
    everything = "".join([*(str(each.message) for each in told), caplog.text, *map(repr, run.problems)])
    assert SECRET not in everything
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert SECRET.encode() not in written
    assert SECRET not in repr(Notifier(service.address_text))


def finding(rule="loss-spike", step=3):
    return Finding(rule, "high", "Loss spike", "the loss rose", "train/loss", "", None, None, step, step, 0.0)


class Quiet:
    """A run that is told of nothing."""

    def report(self, *arguments, **more):
        raise AssertionError(arguments)


def test_findings_are_throttled_by_rule_and_by_hour_and_what_was_held_back_is_counted(service):
    time = Time()
    notifier = Notifier(service.address_text, every_s=60, most_an_hour=3, clock=time, picture=False)
    notifier.start(Quiet())
    for rule, wait in (("a", 0), ("a", 1), ("b", 1), ("a", 100), ("c", 1), ("c", 3600)):
        time.now += wait
        notifier.put(finding(rule), "runs/x")
    notifier.end(10.0)
    assert len(service.seen) == 4
    held = [
        line for message in service.seen for line in message["message"].split("\n") if "held back" in line
    ]
    assert held == ["1 more finding was held back", "1 more finding was held back"]


def test_lesser_findings_hold_none_of_severity_high_back(service):
    notifier = Notifier(service.address_text, every_s=60, most_an_hour=2, clock=Time(), picture=False)
    notifier.start(Quiet())
    lesser = [replace(finding(rule), severity="low") for rule in "abc"]
    for each in (*lesser, finding("a"), finding("d"), finding("e")):
        notifier.put(each, "runs/x")
    notifier.end(10.0)
    titles = [message["title"] for message in service.seen]
    assert titles == ["Loss spike (low)"] * 2 + ["Loss spike (high)"] * 2


@pytest.mark.parametrize("limits", [{"every_s": -1}, {"every_s": float("nan")}, {"most_an_hour": 0}])
def test_a_limit_that_cannot_be_right_is_refused(limits):
    with pytest.raises(UsageError, match="expected every_s"):
        Notifier("json://localhost", **limits)


def test_an_address_that_is_none_is_refused_without_saying_it():
    with pytest.raises(UsageError) as caught:
        Notifier(f"nonsense://{SECRET}")
    assert "nonsense://…" in str(caught.value)
    assert SECRET not in str(caught.value)
    with pytest.raises(UsageError):
        Notifier([])


def test_without_apprise_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "apprise", None)
    with raises(UsageError, hint_has="stepscope[alerts]"):
        Notifier("json://localhost")


def test_a_chart_needs_two_points_and_survives_any_values():
    steps = np.arange(5)
    assert chart(steps[:1], np.ones(1), mark=0, title="a") is None
    assert chart(steps, np.full(5, np.nan), mark=0, title="a") is None
    for values in (np.ones(5), np.array([1.0, np.nan, 3.0, np.inf, 2.0]), np.array([0, 1e30, 0, -1e30, 0])):
        assert chart(steps, values, mark=9, title="Größe/☃").startswith(b"\x89PNG")


def test_a_run_judges_conditions_of_its_own(tmp_path):
    time = Time()
    with ss.Run(tmp_path, alerts=["mine/x > 3"], _clock=time.clock) as run:
        run.alert(ss.Alert("mine/x < -3", name="far below", severity="high"))
        for step in run.steps(range(30)):
            run.scalar(
                "mine/x", 5.0 if step == 10 else -5.0 if step == 20 else float("nan") if step == 4 else 0.0
            )
            time.now += 1.0
    with ss.open(tmp_path, cache=False) as log:
        found = log.run(".").findings
    assert [(each.rule, each.severity, each.step) for each in found] == [
        ("mine/x > 3", "medium", 10),
        ("far below", "high", 20),
    ]


def test_an_alert_joins_the_health_hook_that_is_there(tmp_path):
    hook, time = ss.HealthHook(), Time()
    with ss.Run(tmp_path, hooks=[hook], _clock=time.clock) as run:
        run.alert("train/loss > 3")
        for step in run.steps(range(30)):
            run.scalar("train/loss", 5.0 if step == 10 else 1.0)
            time.now += 1.0
    assert [each.rule for each in hook.findings] == ["train/loss > 3"]
    assert len([each for each in run.hooks if isinstance(each, ss.HealthHook)]) <= 1


def test_a_function_that_raises_is_told_once(tmp_path, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    hook = ss.HealthHook(alerts=[ss.Alert(lambda values: 1 / 0, name="mine", tags=["train/loss"])])
    time = Time()

    def run_it():
        with ss.Run(tmp_path, hooks=[hook], _clock=time.clock) as run:
            for _ in run.steps(range(30)):
                run.scalar("train/loss", 1.0)
                time.now += 1.0

    with pytest.warns(RuntimeWarning, match="mine raised ZeroDivisionError"):
        run_it()
