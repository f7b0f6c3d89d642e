"""Tests wait for conditions, not for time: what sleeps plays slow work, and is named here with its reason."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
WORK = "work that takes its time is what is measured"
PACE = "a loop goes on at a pace until it is told to end"
SLEEPS = {
    "e2e/gradient_parts.py": WORK,
    "e2e/gradient_trouble.py": PACE,
    "e2e/nan_on_a_rank.py": PACE,
    "e2e/test_machine_load.py": WORK,
    "e2e/test_page_profile_tables.py": PACE,
    "e2e/test_ranks_ray.py": WORK,
    "e2e/untouched/actor_learner.py": "a turn of the loop, which takes no time",
    "keras/test_callback.py": WORK,
    "lib/support/stores.py": "a proxy that answers late",
    "keras/test_stages.py": WORK,
    "lib/support/waiting.py": "polls a condition until a deadline",
    "tensorflow/estimator_job.py": "waits to be killed, or told to go on",
    "tensorflow/test_cluster.py": "polls until a deadline, where tests/lib is not on the path",
    "unit/capture/test_hook.py": PACE,
    "unit/serve/test_budget.py": "a turn of the loop, which takes no time",
    "unit/capture/test_sampler.py": "a thread that sleeps is not one that waits for a processor",
    "unit/capture/test_triggers.py": PACE,
    "unit/integrations/jax/test_profiler.py": WORK,
    "unit/integrations/jax/test_stages.py": WORK,
    "unit/integrations/lightning/test_lightning.py": WORK,
    "unit/integrations/python/test_profiler.py": WORK,
    "unit/integrations/test_transformers.py": WORK,
    "unit/integrations/torch/test_profiler.py": WORK,
    "unit/kernels/test_points.py": "another thread gets its turn",
    "unit/record/summaries/test_encoder.py": "a file is read while it is written",
    "unit/test_remote.py": "a store that does not answer",
}


def sleeping():
    """Files of tests in which something calls ``sleep``."""
    for path in TESTS.rglob("*.py"):
        calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
        if any(ast.unparse(call.func) in ("time.sleep", "sleep", "asyncio.sleep") for call in calls):
            yield path.relative_to(TESTS).as_posix()


def test_no_test_sleeps_but_those_that_play_slow_work():
    assert set(sleeping()) == set(SLEEPS)


def test_the_files_that_begin_first_or_last_are_there():
    text = (TESTS / "conftest.py").read_text()
    first, last = re.findall(r"^(?:LONGEST|LAST) = \((.*?)^\)", text, re.MULTILINE | re.DOTALL)
    places = re.findall(r'"(.+?)"', first + last)
    assert len(places) > 6
    assert [place for place in places if not (TESTS.parent / place).is_file()] == []
