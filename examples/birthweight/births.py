"""Births, made up: what is known before, and the weight that follows from it. All frameworks train on these.

Columns, [n]: sex (0 to 2) and plurality (0 to 2) as numbers of categories, the mother's age and the weeks of
gestation as numbers; the weight in pounds.
"""

from __future__ import annotations

import numpy as np

SEXES, PLURALITIES, AGES, WEEKS, BUCKETS = 3, 3, 31, 31, 20_000
"""Sizes of the categories, and of the crossed one."""
WIDE = SEXES + PLURALITIES + AGES + WEEKS


def births(count: int, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the columns by name, and the weight, float32 [count, 1]."""
    random = np.random.default_rng(seed)
    columns = {
        "sex": random.integers(0, SEXES, count),
        "plurality": random.choice(PLURALITIES, count, p=[0.9, 0.08, 0.02]),
        "age": random.uniform(15, 45, count).astype(np.float32),
        "weeks": random.uniform(20, 45, count).astype(np.float32),
    }
    weight = 0.2 * (columns["weeks"] - 30) + 0.02 * columns["age"] + 0.3 * (columns["sex"] == 0)
    weight += 5 - 1.2 * columns["plurality"] + random.normal(0, 0.5, count)
    return columns, weight.astype(np.float32)[:, None]


def features(columns: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return what the model sees.

    Returns:
        The numbers of the wide part's categories, int64 [n, 4], each column with places of its own among
        ``WIDE``; the crossed category, int64 [n], below ``BUCKETS``; the numbers, float32 [n, 2], around 0.
    """
    age, weeks = columns["age"].astype(np.int64) - 15, columns["weeks"].astype(np.int64) - 17
    sex, plurality = columns["sex"].astype(np.int64), columns["plurality"].astype(np.int64)
    wide = np.stack(
        [sex, SEXES + plurality, SEXES + PLURALITIES + age, SEXES + PLURALITIES + AGES + weeks], 1
    )
    crossed = (((sex * PLURALITIES + plurality) * AGES + age) * WEEKS + weeks) * 2_654_435_761 % BUCKETS
    numbers = np.stack([(columns["age"] - 30) / 9, (columns["weeks"] - 32) / 7], 1).astype(np.float32)
    return wide, crossed, numbers
