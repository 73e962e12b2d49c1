"""Beam search over an encoder and a decoder: com.microsoft.BeamSearch of model type 1.

In: attributes, operands, a function that runs one of the two graphs. Out: sequences and their
scores. Source: ONNX Runtime's operator text and its beam scorer (contrib_ops/cpu/transformers);
what it does with a sequence that ends: it is kept without the end, scored by its log probability
over length^penalty, and the search of a batch ends when no open beam can be better.

Attention masks come from padding, the past of self attention follows the beams; masks of words,
prefixes and repetition penalties of other kinds are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rewrite.errors import error

Array = np.ndarray[Any, np.dtype[Any]]
Run = Callable[[str, Sequence[Any]], list[Any]]

_TAKEN = 7  # operands: ids, lengths, beams, sequences, both penalties
_NEVER = np.float32(-1e9)  # the score of beams that are copies of the first one


@dataclass(frozen=True, slots=True)
class Settings:
    """The scalars of one search."""

    longest: int
    shortest: int
    beams: int
    kept: int  # sequences given back per batch
    length_penalty: float
    repetition_penalty: float
    start: int
    end: int
    pad: int
    early: bool


@dataclass
class Hypotheses:
    """The best finished sequences of one batch."""

    settings: Settings
    found: list[tuple[float, list[int]]] = field(default_factory=list)
    done: bool = False

    def add(self, sequence: Sequence[int], total: float) -> None:
        score = total / len(sequence) ** self.settings.length_penalty
        self.found.append((score, list(sequence)))
        self.found.sort(key=lambda item: -item[0])
        del self.found[self.settings.beams :]

    def close(self, best: float, length: int) -> None:
        """Whether the search is over: nothing open can be better than what is found."""
        if self.done or len(self.found) < self.settings.beams:
            return
        if self.settings.early:
            self.done = True
            return
        self.done = self.found[-1][0] >= best / length**self.settings.length_penalty


def beam_search(
    name: str, attributes: Mapping[str, Any], inputs: Sequence[Any], run: Run
) -> list[Any]:
    """Sequences (batch, kept, longest) and their scores (batch, kept)."""
    settings = _settings(name, attributes, inputs)
    ids: Array = inputs[0]
    batch, beams = len(ids), settings.beams
    mask = (ids != settings.pad).astype(np.int32)
    first = np.full((batch, 1), settings.start, np.int32)
    logits, states, *present = run("encoder", [ids, mask, first])
    half = len(present) // 2
    own = [np.repeat(x, beams, axis=0) for x in present[:half]]
    cross = [np.repeat(x, beams, axis=0) for x in present[half:]]
    states, mask = np.repeat(states, beams, axis=0), np.repeat(mask, beams, axis=0)
    logits = np.repeat(logits, beams, axis=0)
    sequences = [[settings.start] for _ in range(batch * beams)]
    totals = np.tile(np.array([0, *[_NEVER] * (beams - 1)], np.float32), batch)
    finished = [Hypotheses(settings) for _ in range(batch)]
    while True:
        scores = _scores(settings, logits[:, -1], sequences) + totals[:, None]
        parents, tokens, totals = _advance(settings, scores, sequences, finished)
        sequences = [[*sequences[p], int(t)] for p, t in zip(parents, tokens, strict=True)]
        if len(sequences[0]) >= settings.longest or all(h.done for h in finished):
            break
        own = [x[parents] for x in own]
        given = np.array(sequences, np.int32)
        logits, *own = run("decoder", [given, mask, states, *own, *cross])
    return _results(settings, sequences, totals, finished)


def _settings(name: str, attributes: Mapping[str, Any], inputs: Sequence[Any]) -> Settings:
    kind = int(attributes.get("model_type", 0))
    if kind != 1 or any(x is not None for x in inputs[_TAKEN:]):
        raise error(
            "RW832", "com.microsoft.BeamSearch needs an encoder and no masks of words",
            subject=name,
        )  # fmt: skip

    def scalar(index: int, default: float) -> float:
        found = inputs[index] if index < len(inputs) else None
        return default if found is None else float(np.asarray(found).reshape(-1)[0])

    return Settings(
        longest=int(scalar(1, 20)),
        shortest=int(scalar(2, 0)),
        beams=int(scalar(3, 1)),
        kept=int(scalar(4, 1)),
        length_penalty=scalar(5, 1.0),
        repetition_penalty=scalar(6, 1.0),
        start=int(attributes.get("decoder_start_token_id", -1)),
        end=int(attributes["eos_token_id"]),
        pad=int(attributes["pad_token_id"]),
        early=bool(attributes.get("early_stopping", 0)),
    )


def _scores(settings: Settings, logits: Array, sequences: Sequence[Sequence[int]]) -> Array:
    """Log probabilities of the next token, after the penalties."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    if len(sequences[0]) < settings.shortest:
        logs[:, settings.end] = np.finfo(np.float32).min
    if settings.repetition_penalty != 1.0:
        for row, sequence in zip(logs, sequences, strict=True):
            seen = list(dict.fromkeys(sequence))
            penalty = np.float32(settings.repetition_penalty)
            row[seen] = np.where(row[seen] < 0, row[seen] * penalty, row[seen] / penalty)
    return np.asarray(logs, np.float32)


def _advance(
    settings: Settings, scores: Array, sequences: Sequence[Sequence[int]], done: list[Hypotheses]
) -> tuple[list[int], list[int], Array]:
    """For every beam which one it continues, the token, and the sum of log probabilities."""
    beams, words = settings.beams, scores.shape[1]
    parents: list[int] = []
    tokens: list[int] = []
    totals: list[float] = []
    for batch, hypotheses in enumerate(done):
        if hypotheses.done:
            parents += [batch * beams] * beams
            tokens += [settings.pad] * beams
            totals += [0.0] * beams
            continue
        flat = scores[batch * beams : (batch + 1) * beams].ravel()
        best = np.argsort(-flat, kind="stable")[: 2 * beams]
        open_beams = 0
        for rank, place in enumerate(best.tolist()):
            beam, token = batch * beams + place // words, place % words
            if token == settings.end:
                if rank < beams:
                    hypotheses.add(sequences[beam], float(flat[place]))
                continue
            parents.append(beam)
            tokens.append(token)
            totals.append(float(flat[place]))
            open_beams += 1
            if open_beams == beams:
                break
        hypotheses.close(float(flat[best[0]]), len(sequences[0]))
    return parents, tokens, np.array(totals, np.float32)


def _results(
    settings: Settings, sequences: list[list[int]], totals: Array, done: list[Hypotheses]
) -> list[Any]:
    """The best sequences of each batch; those still open count as finished now."""
    beams, kept = settings.beams, settings.kept
    found = np.full((len(done), kept, settings.longest), settings.pad, np.int32)
    scores = np.zeros((len(done), kept), np.float32)
    for batch, hypotheses in enumerate(done):
        if not hypotheses.done:
            for beam in range(batch * beams, (batch + 1) * beams):
                hypotheses.add(sequences[beam], float(totals[beam]))
        for k, (score, sequence) in enumerate(hypotheses.found[:kept]):
            found[batch, k, : len(sequence)] = sequence
            scores[batch, k] = score
    return [found, scores]
