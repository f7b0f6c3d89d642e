"""Whatever happens to a log directory, following it ends where reading it anew does."""

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from stepscope import store
from stepscope.events import Event, SessionLog, SessionStatus, Summary, Value, encode_event, frame
from stepscope.store import cache

RUNS = st.sampled_from([".", "a", "a/eval", "b"])
FILES = st.sampled_from(
    ["events.out.tfevents.1.h.1.0", "events.out.tfevents.2.h.2.0", "events.out.tfevents.3.h.1.0"]
)
TAGS = st.sampled_from(["loss", "lr", "train/loss"])


class Following(RuleBasedStateMachine):
    """A directory that is written to, damaged and deleted while two logs, one with a cache, follow it."""

    @initialize()
    def begin(self):
        self.folder = Path(tempfile.mkdtemp())
        self.root = self.folder / "logs"
        self.root.mkdir()
        self.patch = pytest.MonkeyPatch()
        self.patch.setenv("XDG_CACHE_HOME", str(self.folder / "cache"))
        self.patch.setattr(cache, "WORTH_BYTES", 1)
        self.wall = 1.7e9
        self.followed = store.open(self.root, cache=False)
        self.cached = store.open(self.root)

    def teardown(self):
        self.cached.close()
        self.followed.close()
        self.patch.undo()
        shutil.rmtree(self.folder)

    def file(self, run, name):
        path = self.root / run / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    @rule(run=RUNS, name=FILES, tag=TAGS, steps=st.lists(st.integers(0, 20), min_size=1, max_size=30))
    def write(self, run, name, tag, steps):
        with self.file(run, name).open("ab") as out:
            for step in steps:
                self.wall += 1
                event = Event(self.wall, step, summary=Summary([Value(tag, step / 3)]))
                out.write(frame(encode_event(event)))

    @rule(run=RUNS, name=FILES, step=st.integers(0, 20))
    def start_session(self, run, name, step):
        self.wall += 1
        with self.file(run, name).open("ab") as out:
            out.write(
                frame(encode_event(Event(self.wall, step, session_log=SessionLog(SessionStatus.START))))
            )

    @rule(run=RUNS, name=FILES, share=st.floats(0, 1))
    def cut(self, run, name, share):
        path = self.root / run / name
        if path.exists():
            os.truncate(path, int(path.stat().st_size * share))

    @rule(run=RUNS, name=FILES)
    def delete(self, run, name):
        (self.root / run / name).unlink(missing_ok=True)

    @rule(run=RUNS, name=FILES, tag=TAGS)
    def replace(self, run, name, tag):
        self.wall += 1
        data = frame(encode_event(Event(self.wall, 1, summary=Summary([Value(tag, 7)]))))
        other = self.file(run, "other")
        other.write_bytes(data * 3)
        other.replace(self.file(run, name))

    @rule()
    def restart_the_reader(self):
        self.cached.close()
        self.cached = store.open(self.root)

    @rule()
    def lose_the_cache(self):
        self.cached.close()
        shutil.rmtree(self.folder / "cache", ignore_errors=True)

    @invariant()
    def following_sees_what_reading_anew_sees(self):
        self.followed.refresh()
        self.cached.refresh()
        fresh = facts(store.open(self.root, cache=False))
        assert facts(self.followed) == fresh
        assert facts(self.cached) == fresh


def facts(log):
    return {
        (run.name, tag): [
            (
                each.writer,
                each.attempt,
                each.superseded_from,
                each.points.facts,
                *map(np.ndarray.tolist, each.points.columns),
            )
            for each in run.columns(tag)
        ]
        for run in log.runs()
        for tag in run.tags()
    } | {run.name: (run.num_points(), run.base, run.split) for run in log.runs()}


TestFollowing = Following.TestCase
TestFollowing.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
