from __future__ import annotations

import pytest

from wormdb.bql.search.expression import (
    AllWords,
    AnyWord,
    Expression,
    OptionalWords,
    SearchPhrase,
    SearchTerm,
    WithoutWord,
    parse_search,
    parse_text_search,
)
from wormdb.bql.search.fields import parse_fields
from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.settings import SEARCH_CHARS_MAX, SEARCH_WORDS_MAX

FIELDS = parse_fields(["title^3", "body.text"], "english", ["the"])


def shown(tree: Expression | None) -> str:
    match tree:
        case SearchTerm(term, field, is_prefix):
            return f"{'' if field is None else f'{field}:'}{term}{'*' if is_prefix else ''}"
        case SearchPhrase(items):
            return '"' + " ".join(f"{at}/{shown(term)}" for at, term in items) + '"'
        case AllWords(children):
            return f"({' & '.join(map(shown, children))})"
        case AnyWord(children):
            return f"({' | '.join(map(shown, children))})"
        case OptionalWords(children):
            return f"[{' '.join(map(shown, children))}]"
        case WithoutWord(child):
            return f"!{shown(child)}"
        case None:
            return "nothing"


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("Red shoes", "(red & shoe)"),
        ("red AND shoes", "(red & shoe)"),
        ("red red RED", "red"),
        ("red OR blue shoes", "(red | (blue & shoe))"),
        ("(red OR blue) shoes", "((red | blue) & shoe)"),
        ("shoes -leather NOT suede", "(shoe & !leather & !sued)"),
        ("shoes -(leather OR suede)", "(shoe & !(leather | sued))"),
        ("shoes --leather", "(shoe & leather)"),
        ('"running shoes"', '"0/run 1/shoe"'),
        ('"run the shoes"', '"0/run 2/shoe"'),
        ("adi* x", "(adi* & x)"),
        ("Running*", "running*"),
        ("wi-fi", '"0/wi 1/fi"'),
        ("wi-f*", '"0/wi 1/f*"'),
        ("title:red body.text:x", "(0:red & 1:x)"),
        ('title:"a b" -title:c', '("0/0:a 1/0:b" & !0:c)'),
        ("title:(a OR b) c", "((0:a | 0:b) & c)"),
        ("at 12:30 re: http://x.org", '(at & "0/12 1/30" & re & "0/http 1/x 2/org")'),
        ("or and not", "(or & and & not)"),
        ("東京都 京 -東", '("0/東京 1/京都" & 京* & !東*)'),
        ("the red ... ! shoe", "(red & shoe)"),
        ("a - b", "(a & b)"),
        ("café*", "cafe*"),
        (f"{'-' * 4_000}red", "red"),
        (f"blue {'NOT ' * 999}red", "(blue & !red)"),
        ('"title: red"', '"0/titl 1/red"'),
    ],
)
def test_a_search_is_read(text: str, tree: str) -> None:
    assert shown(parse_search(text, FIELDS)) == tree


@pytest.mark.parametrize(
    ("text", "reason", "column"),
    [
        ('red "shoes', "a quote is not closed", 5),
        ("red (shoes", "a bracket is not closed", 5),
        ("red shoes)", "a bracket is closed that was not opened", 10),
        ("OR red", "nothing stands before OR", 1),
        ("red OR", "nothing follows OR", 5),
        ("red OR OR x", "nothing follows OR", 5),
        ("(red OR)", "nothing follows OR", 6),
        ("red AND", "AND stands between two words", 5),
        ("red NOT", "nothing follows NOT", 5),
        ("red *", "a word is missing before *", 5),
        ("red tittle:x", "'tittle' is not one of the fields that are searched", 5),
        ("-red", "it, or a side of OR in it, only says which words to leave out", 1),
        ("red OR -blue", "it, or a side of OR in it, only says which words to leave out", 1),
        ("", "it has no word that can be found", 1),
        ("the ???", "it has no word that can be found", 1),
        (f"{'(' * 60}a{')' * 60}", "brackets and fields lie more than 50 deep", 52),
        (f"{'title:' * 600}a", "brackets and fields lie more than 50 deep", 307),
        (f"{'-(' * 600}a{')' * 600}", "brackets and fields lie more than 50 deep", 103),
        ("red title:", "nothing follows title:", 5),
        ("title: red", "nothing follows title:", 1),
        ("(title:)", "nothing follows title:", 2),
    ],
)
def test_a_mistake_is_told_with_its_place(text: str, reason: str, column: int) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_search(text, FIELDS)
    assert caught.value.reason == reason
    assert caught.value.fix
    assert (f", column {column}" in caught.value.what) is (column > 1)


def test_searches_have_limits() -> None:
    with pytest.raises(InvalidRequestError, match="it must be text, not int"):
        parse_search(3, FIELDS)
    with pytest.raises(LimitExceededError, match="SEARCH_CHARS_MAX"):
        parse_search("x" * (SEARCH_CHARS_MAX + 1), FIELDS)
    with pytest.raises(LimitExceededError, match="SEARCH_WORDS_MAX"):
        parse_search(" ".join(f"w{number}" for number in range(SEARCH_WORDS_MAX + 1)), FIELDS)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("red shoes", "(red | shoe)"),
        ("red -leather", "(red & !leather)"),
        ('"ssl certificate" authority -key', '("0/ssl 1/certif" & [ssl certif author] & !key)'),
        ("title:x (a OR", "(titl | x | a | or)"),
        ("-red", "nothing"),
        ("the", "nothing"),
        ('"red', "(red & [red])"),
    ],
)
def test_mongodb_text_search_is_any_word_and_every_phrase(text: str, tree: str) -> None:
    assert shown(parse_text_search(text, FIELDS)) == tree


@pytest.mark.parametrize(
    ("fields", "language", "stop_words", "path"),
    [
        ([], None, None, "fields"),
        ("", None, None, "fields."),
        (["a", "a^2"], None, None, "fields.a"),
        (["a^0"], None, None, "fields.a^0"),
        (["a^x"], None, None, "fields.a^x"),
        ([3], None, None, "fields"),
        (["a"], "klingon", None, "language"),
        (["a"], "tamil", True, "stop_words"),
        (["a"], None, "the", "stop_words"),
    ],
)
def test_fields_that_cannot_be_are_told(fields: object, language: object, stop_words: object, path: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_fields(fields, language, stop_words)
    assert [problem.path for problem in caught.value.problems] == [path]


def test_fields_are_made_again_of_their_options() -> None:
    made = parse_fields(["title^3", "tags.name^0.5", "id"], "german", True)
    assert parse_fields(*made.options.values()) == made
    assert [field.text for field in made.fields] == ["title^3", "tags.name^0.5", "_id"]
