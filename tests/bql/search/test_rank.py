"""Answers of searches against a second meaning, which shares no code with the first."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from wormdb.bql.search.expression import parse_search
from wormdb.bql.search.fields import parse_fields
from wormdb.bql.search.highlight import highlight
from wormdb.bql.search.rank import LEVELS, Search, level_of, rank_documents, round_length

FIELDS = parse_fields(["title^3", "parts.text"])
WORDS = ["a", "b", "c", "ca", "cab", "d"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
DOCUMENTS = st.lists(
    st.fixed_dictionaries({"title": TEXTS | st.integers(), "parts": st.lists(st.fixed_dictionaries({"text": TEXTS}))}),
    max_size=8,
).map(lambda found: [{"_id": number, **each} for number, each in enumerate(found)])

Test = Callable[[list[list[str]], list[list[str]]], bool]
"""Whether a document with these titles and texts, each cut into words, is found."""
Written = tuple[str, Test, list[tuple[str, int]]]
"""A search as text, what it means, and its words that count: 0 in titles, 1 in texts, 2 in both."""


def fields_of(document: dict[str, Any]) -> tuple[list[list[str]], list[list[str]]]:
    title = document["title"]
    return [title.split()] if isinstance(title, str) else [], [part["text"].split() for part in document["parts"]]


def is_in(word: str, texts: list[list[str]]) -> int:
    if word.endswith("*"):
        return sum(other.startswith(word[:-1]) for text in texts for other in text)
    return sum(text.count(word) for text in texts)


def word_of(word: str, where: int) -> Written:
    prefix = {0: "title:", 1: "parts.text:", 2: ""}[where]
    return (
        prefix + word,
        lambda titles, texts: bool((where != 1 and is_in(word, titles)) or (where != 0 and is_in(word, texts))),
        [(word, where)],
    )


def phrase_of(words: list[str], where: int) -> Written:
    text = " ".join(words)

    def is_there(titles: list[list[str]], texts: list[list[str]]) -> bool:
        chosen = (titles if where != 1 else []) + (texts if where != 0 else [])
        return any(f" {text} " in f" {' '.join(each)} " for each in chosen)

    return {0: "title:", 1: "parts.text:", 2: ""}[where] + f'"{text}"', is_there, [(word, where) for word in words]


def both(one: Written, other: Written) -> Written:
    return f"({one[0]}) ({other[0]})", lambda *f: one[1](*f) and other[1](*f), one[2] + other[2]


def either(one: Written, other: Written) -> Written:
    return f"{one[0]} OR {other[0]}", lambda *f: one[1](*f) or other[1](*f), one[2] + other[2]


def without(one: Written, other: Written) -> Written:
    return f"({one[0]}) -({other[0]})", lambda *f: one[1](*f) and not other[1](*f), one[2]


WHERE = st.sampled_from([0, 1, 2, 2])
LEAVES = st.builds(word_of, st.sampled_from([*WORDS, "c*", "ca*"]), WHERE) | st.builds(
    phrase_of, st.lists(st.sampled_from(WORDS), min_size=2, max_size=3), WHERE
)
SEARCHES = st.recursive(
    LEAVES, lambda inner: st.one_of(*(st.builds(join, inner, inner) for join in (both, either, without))), max_leaves=5
)


def expected(written: Written, documents: list[dict[str, Any]]) -> list[tuple[int, float]]:
    _, is_found, words = written
    read = {document["_id"]: fields_of(document) for document in documents}
    filled = {key: fields for key, fields in read.items() if any(text for texts in fields for text in texts)}
    means = [
        sum(len(text) for fields in filled.values() for text in fields[place]) / max(len(filled), 1) for place in (0, 1)
    ]
    found = []
    for key, fields in read.items():
        if not is_found(*fields):
            continue
        score = 0.0
        for word, where in dict.fromkeys(words):
            places = [place for place in (0, 1) if where in {place, 2}]
            having = sum(any(is_in(word, each[place]) for place in places) for each in filled.values())
            weighted = 0.0
            for place in places:
                times = is_in(word, fields[place])
                length = sum(map(len, fields[place]))
                if times:
                    weighted += (3.0, 1.0)[place] * times / (0.25 + 0.75 * length / means[place])
            rarity = math.log((len(filled) + 1) / (having + 0.5))
            score += rarity * weighted * 2.2 / (1.2 + weighted)
        found.append((key, score))
    return sorted(found, key=lambda each: (-round(each[1], 9), each[0]))


@given(SEARCHES, DOCUMENTS)
def test_documents_scores_and_order_are_those_of_the_model(written: Written, documents: list[dict[str, Any]]) -> None:
    search = Search(written[0], parse_search(written[0], FIELDS), FIELDS)
    found = [(document["_id"], score) for score, document in rank_documents(search, documents)]
    wanted = expected(written, documents)
    assert [key for key, _ in found] == [key for key, _ in wanted]
    assert all(math.isclose(one, other, rel_tol=1e-9) for (_, one), (_, other) in zip(found, wanted, strict=True))
    assert found == [(document["_id"], score) for score, document in rank_documents(search, documents[::-1])]


@given(SEARCHES, DOCUMENTS)
def test_highlights_are_the_words_that_count(written: Written, documents: list[dict[str, Any]]) -> None:
    search = Search(written[0], parse_search(written[0], FIELDS), FIELDS)
    for document in documents:
        marked = []
        for each in highlight(search, document):
            where = {"title": 0, "parts.text": 1}[each.field]
            words = [each.text[start:stop] for start, stop in each.spans]
            marked.append((where, words))
        wanted = []
        for where, texts in enumerate(fields_of(document)):
            for text in texts:
                counted = [word for word, at in written[2] if at in {where, 2}]
                hits = [word for word in text if any(is_in(other, [[word]]) for other in counted)]
                if hits:
                    wanted.append((where, hits))
        assert marked == wanted


def test_a_long_text_is_cut_around_its_words() -> None:
    search = Search("fox", parse_search("fox", parse_fields("t")), parse_fields("t"))
    text = f"{'lorem <b> ' * 40}the quick fox & its den {'ipsum dolor ' * 40}"
    (found,) = highlight(search, {"t": text}, chars=60)
    assert len(found.text) <= 60
    assert found.text in text
    assert "quick <em>fox</em> &amp; its" in found.marked()
    assert "<b>" not in found.marked()
    assert found.marked("[", "]").count("[") == 1
    (overlapping,) = highlight(
        Search("", parse_search("東京都", parse_fields("t")), parse_fields("t")), {"t": "東京都内"}
    )
    assert overlapping.marked() == "<em>東京都</em>内"


def test_a_byte_names_every_length_that_counts() -> None:
    assert len(set(LEVELS)) == 256
    assert all(level_of(level) == place for place, level in enumerate(LEVELS))
    assert [round_length(length) for length in (0, 63, 64, 71, 72, 127, 128, 143, 144)] == [
        *(0, 63, 64, 64, 72, 120, 128, 128, 144)
    ]
    assert round_length(10**12) == LEVELS[-1]
