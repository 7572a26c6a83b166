"""Vectors and texts of glosses of WordNet, the same ones in every run."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Final

from examples.glosses import DIMENSIONS, read_vectors

__all__ = ["DIMENSIONS", "WORDNET", "make_questions", "make_texts", "make_vectors", "say_texts"]

NOISE: Final = 0.5
"""How long what is added to a vector of length 1 is."""
WORDNET: Final = Path("/usr/share/wordnet")
"""Where Debian's package wordnet-base has it."""
_PARTS: Final = ("noun", "verb", "adj", "adv")
_WORDS: Final = 20_000
"""Of texts that are made up."""


def make_vectors(count: int, asked: int) -> tuple[Any, Any]:
    """Stored vectors of length 1, and the vectors of glosses that are not among them, to ask with.

    There are 5,000 real ones: the others are these again, each time with noise of its own.
    """
    import numpy as np

    real = read_vectors()
    questions, base = real[:asked], real[asked:]
    repeats = -(-count // len(base))
    made = np.concatenate([base] * repeats)[:count]
    chance = np.random.default_rng(7)
    noise = chance.standard_normal((len(made) - len(base), DIMENSIONS), np.float32) if len(made) > len(base) else None
    if noise is not None:
        made[len(base) :] += _unit(noise) * np.float32(NOISE)
    return _unit(made), questions


def _unit(rows: Any) -> Any:
    import numpy as np

    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def say_texts() -> str:
    """What `make_texts` gives, for a title."""
    return "glosses of WordNet" if WORDNET.is_dir() else "made-up texts (wordnet-base is not installed)"


def make_texts(count: int) -> list[str]:
    """Glosses in an order of chance; if WordNet is not there, words of which few are frequent."""
    chance = random.Random(5)
    if not WORDNET.is_dir():
        weights = [1 / (rank + 1) for rank in range(_WORDS)]
        words = chance.choices(range(_WORDS), weights, k=12 * count)
        return [" ".join(f"word{each}" for each in words[12 * row : 12 * row + 12]) for row in range(count)]
    found = [
        line.partition(" | ")[2].strip()
        for part in _PARTS
        for line in (WORDNET / f"data.{part}").read_text("latin-1").splitlines()
        if not line.startswith("  ")  # the licence
    ]
    chance.shuffle(found)
    return found[:count]


def make_questions(texts: list[str], count: int) -> list[list[str]]:
    """One to three words of a text each, of at least four letters."""
    chance = random.Random(6)
    found: list[list[str]] = []
    while len(found) < count:
        words = sorted({word for word in chance.choice(texts).lower().split() if word.isalnum() and len(word) > 3})
        if words:
            found.append(chance.sample(words, min(len(words), 1 + len(found) % 3)))
    return found
