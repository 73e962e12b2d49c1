"""BeamSearch against every sequence there is, and against onnxruntime."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest

import rewrite
from rewrite.errors import RewriteError
from rewrite.runtime.beam_search import beam_search

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))

from corpus import corpus

WORDS, LONGEST, START, END, PAD = 4, 4, 0, 3, 1
TABLE = np.random.default_rng(4).standard_normal((2, WORDS, WORDS)).astype(np.float32) * 2


def run(name, given):
    """Logits of the next word depend on the last one, and on the batch."""
    if name == "encoder":
        ids, _, first = given
        rows = np.arange(len(ids)) % 2
        logits = TABLE[rows, first[:, -1]][:, None]
        state = np.broadcast_to(rows[:, None, None], (len(ids), 1, 1)).astype(np.float32)
        past = np.zeros((len(ids), 1, 1, 1), np.float32)
        return [logits, state, past, past, past, past]
    sequences, _, state, *past = given
    rows = state[:, 0, 0].astype(int)
    return [TABLE[rows, sequences[:, -1]][:, None], *past[:2]]


def search(beams, kept=1, length_penalty=1.0, shortest=0, repetition=1.0, **attributes):
    scalars = [LONGEST, shortest, beams, kept]
    inputs = [np.array([[2, 2], [2, 2]], np.int32)]
    inputs += [np.array(n, np.int32) for n in scalars]
    inputs += [np.array(length_penalty, np.float32), np.array(repetition, np.float32)]
    given = {"model_type": 1, "decoder_start_token_id": START, "eos_token_id": END,
             "pad_token_id": PAD, **attributes}  # fmt: skip
    return beam_search("search", given, inputs, run)


def best_of_all(batch: int, length_penalty: float, shortest: int) -> tuple[float, list[int]]:
    """Of all sequences that end, or are as long as they may be."""
    logs = TABLE[batch] - np.log(np.exp(TABLE[batch]).sum(axis=1, keepdims=True))
    found = []
    for length in range(1, LONGEST + 1):
        for words in itertools.product([w for w in range(WORDS) if w != END], repeat=length - 1):
            sequence = [START, *words]
            total = sum(logs[a, b] for a, b in itertools.pairwise(sequence))
            if length < LONGEST:
                if length < shortest:
                    continue
                total += logs[sequence[-1], END]
            found.append((total / length**length_penalty, sequence))
    return max(found)


@pytest.mark.parametrize("length_penalty", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("shortest", [0, 3])
def test_many_beams_find_the_best_sequence(length_penalty, shortest):
    sequences, scores = search(64, length_penalty=length_penalty, shortest=shortest)
    assert sequences.shape == (2, 1, LONGEST)
    for batch in range(2):
        score, sequence = best_of_all(batch, length_penalty, shortest)
        assert scores[batch, 0] == pytest.approx(score, rel=1e-5)
        assert sequences[batch, 0].tolist() == sequence + [PAD] * (LONGEST - len(sequence))


def test_sequences_come_best_first():
    _, scores = search(8, kept=5)
    assert np.array_equal(scores, -np.sort(-scores, axis=1))


def test_one_beam_is_greedy():
    sequences, _ = search(1)
    for batch in range(2):
        sequence = [START]
        while len(sequence) < LONGEST:
            order = np.argsort(-TABLE[batch, sequence[-1]])
            if order[0] == END:
                break
            sequence.append(int(order[0]))
        assert sequences[batch, 0, : len(sequence)].tolist() == sequence


def test_repetition_is_made_unlikely():
    sequences, _ = search(8, repetition=1e6, shortest=LONGEST)
    for row in sequences[:, 0].tolist():
        assert len(set(row)) >= len(row) - 1  # of four words one must not end it


@pytest.mark.parametrize("early", [0, 1])
def test_searches_end(early):
    sequences, scores = search(4, early_stopping=early)
    assert np.isfinite(scores).all()
    assert (sequences[:, :, 0] == START).all()


def test_decoders_alone_are_refused():
    with pytest.raises(RewriteError, match="RW832"):
        search(2, model_type=0)


@pytest.mark.skipif(corpus() is None, reason="no corpus: set REWRITE_CORPUS")
def test_against_onnxruntime():
    ort = pytest.importorskip("onnxruntime")
    path = str(corpus() / "ort" / "testdata" / "dummy_t5_with_sequence_input_ids.onnx")
    theirs = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(1)
    with rewrite.compile(path, target=None) as ours:
        for _ in range(8):
            ids = rng.integers(0, 20, (rng.integers(1, 4), rng.integers(1, 8))).astype(np.int32)
            feeds = {"encoder_input_ids": ids}
            sequences, scores = theirs.run(None, feeds)
            found = ours.run(feeds)
            assert np.allclose(found["scores"], scores, rtol=1e-5)
            # Where two scores are equal but for rounding, either comes first; the last ones may
            # be equal to one that is not given back.
            same = (found["sequences"][:, 0] == sequences[:, 0]).all(axis=1)
            tied = (np.abs(np.diff(scores, axis=1)) < 1e-6).any(axis=1)
            assert (same | tied).all()
