"""A Keras network that learns the value of moves in a board game from games with itself."""

import os
from collections.abc import Iterator

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np

CELLS, GAMES = 42, 8


class Agent:
    def __init__(self, mended: bool):
        self.model = keras.Sequential(
            [
                keras.Input((CELLS,)),
                keras.layers.Dense(128, activation="relu"),
                keras.layers.Dense(128, activation="relu"),
                keras.layers.Dense(7),
            ]
        )
        self.model.compile(optimizer=keras.optimizers.SGD(0.01), loss="mse")
        self.mended = mended

    def choose(self, board: np.ndarray) -> int:
        if self.mended:
            values = keras.ops.convert_to_numpy(self.model(board[None], training=False))
        else:
            values = self.model.predict(board[None], verbose=0)  # cause
        return int(values[0].argmax())

    def learn(self, boards: np.ndarray, moves: np.ndarray, scores: np.ndarray) -> float:
        goals = keras.ops.convert_to_numpy(self.model(boards, training=False)).copy()
        goals[np.arange(len(boards)), moves] = scores
        return float(self.model.train_on_batch(boards, goals))


def training(mended: bool) -> Iterator[float]:
    keras.utils.set_random_seed(19)
    rng = np.random.default_rng(19)
    agent = Agent(mended)
    boards = rng.integers(-1, 2, (GAMES, CELLS)).astype("float32")
    while True:
        moves = np.array([agent.choose(board) for board in boards])
        scores = boards[np.arange(GAMES), moves] + 0.1
        yield agent.learn(boards, moves, scores)
        boards = np.roll(boards, 1, axis=1)
        boards[:, 0] = rng.integers(-1, 2, GAMES)
