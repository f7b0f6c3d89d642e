"""Where the objects were made that a line calls, read from the program's source."""

from pathlib import Path

import pytest

from stepscope.capture.made import made

SOURCE = """\
import torch
loader = torch.utils.data.DataLoader(rows)
def trainer(rate):
    return torch.compile(step_of(rate))
def train(mended):
    optimizer: object = torch.optim.AdamW(weights, foreach=mended)
    model = keras.Sequential(
        [keras.layers.Dense(1)],
    )
    model.compile("adam", run_eagerly=True)
    score, other = nn.Linear(8, 1), 3
    for rows in loader:
        step = trainer(0.1)
        optimizer.zero_grad()
        step(rows)
        optimizer.step()
        loss = model.train_on_batch(rows)
        other.bit_count()
        print(score(rows))
        loss = loss * 2
        model.compile("sgd")
class Net:
    def __init__(self):
        self.inner = nn.Embedding(9, 9)
    def forward(self, rows, given):
        given(rows)
        return self.inner(rows)
@torch.compile
def decorated(rows):
    return rows
decorated(1)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SOURCE)
    return path


@pytest.mark.parametrize(
    ("line", "called"),
    [
        (12, [("loader", ["(2): <module>"], [], [])]),
        (13, []),
        (14, [("optimizer", ["(6): train"], [], [])]),
        (15, [("step", ["(4): trainer", "(13): train"], [], [])]),
        (16, [("optimizer", ["(6): train"], [], [])]),
        (17, [("model", ["(7): train"], ["(10): train"], ["(21): train"])]),
        (19, [("score", ["(11): train"], [], [])]),
        (20, []),
        (26, []),
        (27, [("self.inner", ["(24): __init__"], [], [])]),
        (31, [("decorated", ["(29): <module>"], [], [])]),
        (99, []),
    ],
)
def test_what_a_line_calls_was_made_in_another(file: Path, line: int, called: list) -> None:
    """What a call returned in a loop of its own, what is passed in, and names alone tell nothing."""
    found = made([(str(file), line)])
    shown = [
        (name, *([one.removeprefix(str(file)) for one in places] for places in where))
        for name, *where in found.get(f"{file}({line})", [])
    ]
    assert shown == called


def test_a_file_that_has_gone_or_is_no_python_tells_nothing(tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text("for in")
    assert made([(str(other), 1), (str(tmp_path / "gone.py"), 1)]) == {}


def test_a_line_at_which_stacks_stand_several_times_is_told_once(tmp_path):
    file = tmp_path / "train.py"
    file.write_text("model = build()\nmodel(rows); model.eval()\n")
    [[name, *_]] = made([(str(file), 2), (str(file), 2)])[f"{file}(2)"]
    assert name == "model"
