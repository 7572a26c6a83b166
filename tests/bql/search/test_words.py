"""Words of texts in several languages, as tables of examples."""

from __future__ import annotations

import sys
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wormdb.bql.search.words import WORD_CHARS_MAX, Analyzer, compared_text
from wormdb.errors import MissingExtraError
from wormdb.schema.words import LANGUAGES

GERMAN = Analyzer("german", ["und"])


@pytest.mark.parametrize(
    ("language", "text", "terms"),
    [
        ("none", "Red SHOES, red-shoes & snake_case 3.14", "red shoes red shoes snake case 3 14"),
        ("none", "café CAFE cafe\u0301 Ørsted Łódź ﬁn ÆØ", "cafe cafe cafe orsted lodz fin aeo"),
        ("none", "STRASSE straße", "strasse strasse"),
        ("english", "The runner's running shoes don\u2019t", "the runner run shoe don't"),
        ("english", "argued arguing flies happily", "argu argu fli happili"),
        ("german", "Die Läufer liefen über Straßen; Häuser Haus", "die lauf lief uber strass haus haus"),
        ("french", "L'été à Montréal: élèves, mangé mange", "l ete a montreal elev mang mang"),
        ("spanish", "Naciones nación corazón", "nacion nacion corazon"),
        ("turkish", "KIR k\u0131r kir \u0130stanbul", "k\u0131r k\u0131r kir istanbul"),
        ("none", "KIR k\u0131r kir \u0130STANBUL Isparta", "kir kir kir istanbul isparta"),
        ("russian", "Красный красная ёлка", "красн красн елк"),
        ("none", "शब्द हिन्दी", "शब्द हिन्दी"),
        ("none", "שָׁלוֹם שלום مَرْحَبًا", "שלום שלום مرحبا"),
    ],
)
def test_words_are_folded_and_reduced_to_stems(language: str, text: str, terms: str) -> None:
    assert Analyzer(language).terms(text) == terms.split()


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("東京都", "東京 京都 都"),
        ("都", "都"),
        ("iPhone手机 3章", "iphone 手机 机 3 章"),
        ("ｶﾞﾗｽ ガラス カラス", "ガラ ラス ス ガラ ラス ス カラ ラス ス"),
        ("ひらがな", "ひら らが がな な"),
        ("한국어를 배우다", "한국어를 배우다"),
        ("ไทย", "ไท ทย ย"),
    ],
)
def test_scripts_without_blanks_are_cut_into_overlapping_pairs(text: str, terms: str) -> None:
    assert Analyzer().terms(text) == [unicodedata.normalize("NFC", term) for term in terms.split()]


def test_stop_words_leave_a_place_and_no_word() -> None:
    analyzer = Analyzer("english", ["The", "of"])
    assert analyzer.terms("the state OF the art") == [None, "state", None, None, "art"]
    assert Analyzer("none", ["à"]).terms("A la carte") == [None, "la", "carte"]


def test_every_language_has_a_stemmer_and_long_words_are_cut() -> None:
    assert all(Analyzer(language).terms("words")[0] for language in LANGUAGES)
    assert Analyzer().terms("x" * 5_000) == ["x" * WORD_CHARS_MAX]


@given(st.text(max_size=40))
def test_words_have_their_places_and_their_forms_do_not_depend_on_the_way(text: str) -> None:
    words, whole = GERMAN.words(text), compared_text(text)
    assert [word.term for word in words] == GERMAN.terms(text) == GERMAN.terms(whole)
    assert all(0 <= word.start < word.stop <= len(whole) for word in words)
    assert all(one.start < other.start for one, other in pairwise(words))
    letters = [place for place, letter in enumerate(whole) if unicodedata.category(letter)[0] in "LN" and letter != "_"]
    covered = {place for word in words for place in range(word.start, word.stop)}
    assert covered.issuperset(letters)


def test_without_the_package_a_language_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "Stemmer", None)
    with pytest.raises(MissingExtraError, match=r"wormdb\[text\]"):
        Analyzer("english")
    assert Analyzer("none").terms("no stems") == ["no", "stems"]
