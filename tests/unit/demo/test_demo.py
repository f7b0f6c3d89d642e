import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from stepscope import store
from stepscope.demo import digits, training
from stepscope.demo.digits import Loader, moved
from stepscope.errors import UsageError


def test_digits_are_split_without_loss_or_overlap() -> None:
    (images, labels), (held_images, held_labels) = digits.split()
    assert images.shape == (1437, 8, 8)
    assert held_images.shape == (360, 8, 8)
    assert images.dtype == np.float32
    assert 0 <= images.min() < images.max() == 1
    assert np.bincount(np.concatenate([labels, held_labels])).tolist() == [
        178, 182, 177, 183, 181, 182, 181, 179, 174, 180,
    ]  # fmt: skip


def test_the_images_are_those_of_scikit_learn() -> None:
    bundled = pytest.importorskip("sklearn.datasets").load_digits()
    with np.load(Path(digits.__file__).with_name("digits.npz")) as stored:
        assert (stored["images"] == bundled.images).all()
        assert (stored["labels"] == bundled.target).all()


@pytest.mark.slow
def test_numpy_alone_trains(tmp_path: Path) -> None:
    """In a plain install there is no scikit-learn."""
    program = (
        "import sys; sys.modules['sklearn'] = None\n"
        "from pathlib import Path; from stepscope.demo import training\n"
        "training.train(Path(sys.argv[1]), 'numpy', learning_rate=0.001, epochs=1, slow_from=None)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "run")], check=True, timeout=120)
    assert "train/loss" in store.open(tmp_path, cache=False).run("run").tags()


def test_images_move_by_at_most_one_pixel() -> None:
    image = np.zeros((200, 8, 8), np.float32)
    image[:, 4, 4] = 1
    places = {divmod(int(one.argmax()), 8) for one in moved(image, np.random.default_rng(0))}
    assert places == {(row, column) for row in (3, 4, 5) for column in (3, 4, 5)}


def test_an_epoch_is_the_same_again_and_another_is_not() -> None:
    (images, labels), _ = digits.split()
    first, again, other = (next(iter(Loader(images, labels, 64, epoch)))[0] for epoch in (3, 3, 4))
    assert (first == again).all()
    assert (first != other).any()
    assert len(list(Loader(images, labels, 64, 0))) == len(Loader(images, labels, 64, 0)) == 22


def test_learning_rate_rises_then_falls_to_nothing() -> None:
    shares = [training.schedule(step, 1000) for step in range(1001)]
    assert max(shares) == shares[training.WARMUP_STEPS] == 1
    assert shares[1000] == pytest.approx(0, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("framework", training.FRAMEWORKS)
def test_every_framework_learns_digits_and_records_it(framework: str, tmp_path: Path) -> None:
    if not find_spec(framework):
        pytest.skip(f"{framework} is not installed")
    reached = training.train(tmp_path / "run", framework, learning_rate=0.01, epochs=5)
    (run,) = store.open(tmp_path, cache=False).runs()
    assert run.state == "finished"
    assert run.info.config["framework"] == framework
    accuracy = run.series("eval/accuracy")["value"].tolist()
    assert len(accuracy) == 5
    assert accuracy[-1] == pytest.approx(reached)
    assert reached > 0.7  # guessing gives 0.1
    loss = run.series("train/loss")["value"]
    assert len(loss) == 110
    assert loss[-22:].mean() < 0.5 * loss[:5].mean()
    assert len(run.series("speed/step_time_ms")) == 110


def test_a_framework_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "find_spec", lambda name: name == "numpy")
    assert training.choose("auto") == "numpy"
    with pytest.raises(UsageError, match="torch is not installed"):
        training.choose("torch")
