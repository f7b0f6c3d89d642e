from __future__ import annotations

import numpy as np

from stepscope.kernels import payloads


def test_heads_and_what_follows_them():
    data = np.frombuffer(b"..AAaaaa..BBb.CC", np.uint8)
    starts, lengths = np.array([2, 10, 14]), np.array([6, 3, 2])
    heads, body = np.zeros((3, 2), np.uint8), np.zeros(5, np.uint8)
    payloads.split(data, starts, lengths, heads, body)
    assert heads.tobytes() == b"AABBCC"
    assert body.tobytes() == b"aaaab"


def test_nothing():
    none = np.zeros(0, np.int64)
    payloads.split(b"x", none, none, np.zeros((0, 2), np.uint8), np.zeros(0, np.uint8))


def test_uncompiled_it_does_the_same(uncompiled):
    plain = uncompiled(payloads)
    data = np.arange(100, dtype=np.uint8)
    starts, lengths = np.array([3, 50, 20]), np.array([10, 4, 7])
    answers = []
    for module in (payloads, plain):
        heads, body = np.zeros((3, 4), np.uint8), np.zeros(9, np.uint8)
        module.split(data, starts, lengths, heads, body)
        answers.append((heads.tolist(), body.tolist()))
    assert answers[0] == answers[1]
