"""A real data set for pages, tests and benchmarks: 5,000 glosses of WordNet with their embeddings."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, Final

from bson.binary import Binary, BinaryVectorDtype

__all__ = ["DIMENSIONS", "FOLDER", "read_glosses", "read_synsets", "read_vectors"]

DIMENSIONS: Final = 384
FOLDER: Final = Path(__file__).parent
_KINDS: Final = {"n": "noun", "v": "verb", "a": "adjective", "s": "adjective", "r": "adverb"}
_FOODS: Final = 13
"""WordNet's number of the lexical file noun.food."""


def read_synsets() -> list[tuple[str, int, list[str], str]]:
    """Of each gloss the offset with the part of speech, the number of the lexical file, the words, and the text."""
    return [tuple(row) for row in json.loads(gzip.decompress((FOLDER / "synsets.json.gz").read_bytes()))]


def read_vectors() -> Any:
    """The embedding of each gloss, as a row of length 1 of a numpy array of float32."""
    import numpy as np

    codes = b"".join(path.read_bytes() for path in sorted(FOLDER.glob("part*.int8")))
    vectors = np.frombuffer(codes, np.int8).reshape(-1, DIMENSIONS).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def read_glosses() -> list[dict[str, Any]]:
    """A document for each gloss: `id`, `kind`, `words`, `text`, `is_food` and `embedding`."""
    return [
        {
            "id": name,
            "kind": _KINDS[name[-1]],
            "words": words,
            "text": text,
            "is_food": file == _FOODS,
            "embedding": Binary.from_vector(vector.tolist(), BinaryVectorDtype.FLOAT32),
        }
        for (name, file, words, text), vector in zip(read_synsets(), read_vectors(), strict=True)
    ]
