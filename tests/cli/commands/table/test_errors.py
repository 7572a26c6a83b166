"""worm table, called wrongly: one line that names the place and the fix, and an exit code."""

from __future__ import annotations

import pytest

from tests.cli.printed import fill, worm


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = str(tmp_path_factory.mktemp("errors") / "shop")
    fill(url, customers=3)
    return url


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["query", "Custmer"], "Unknown model: Custmer: "),
        (["query", "Custmer"], "(did you mean 'Customer'?)"),
        (["query", "org/custmers"], "did you mean 'org/customers'?"),
        (["query", "User"], "name the folder of one"),
        (["query", "Customer", "--filter", "status="], "--filter 'status=': column 8: a value is missing"),
        (["query", "Customer", "--filter", "a=1,b=2,c"], "column 10: "),
        (["query", "Customer", "--filter", '{"a": {"$gtt": 1}}'], "$gtt"),
        (["query", "Customer", "--filter", '{"a": '], "column"),
        (["query", "Customer", "--sort", "name:up"], "there is no order 'up' (write name:asc or name:desc"),
        (["query", "Customer", "--sort", "$name"], "$name"),
        (["query", "Customer", "--select", "name,name.first"], "[1]: it overlaps with name"),
        (["query", "Customer", "--limit", "0"], "limit must be a whole number of 1 or more, not 0"),
        (["query", "Customer", "--limit", "many"], "'many' is not a valid integer"),
        (["query", "Customer", "--offset", "-1"], "offset must be a whole number of 0 or more, not -1"),
        (["query", "Customer", "--page", "nonsense"], "page"),
        (["query", "Customer", "--format", "xml"], "'xml' is not one of"),
        (["export", "Customer", "--format", "table"], "'table' is not one of"),
        (["query", "Customer", "--strategy", "index_lookup", "--filter", "name=x"], "not available"),
        (["query", "Customer", "--strategy", "magic"], "'magic' is not one of"),
        (["query", "Customer", "--as-of", "yesterday"], "yesterday"),
        (["aggregate", "Invoice", "--sum", "$x"], "$x"),
        (["files", "Customer", "--sql", "spark"], "'spark' is not 'duckdb'"),
        (["query"], "Missing argument 'MODEL'"),
        (["frobnicate"], "No such command 'frobnicate'"),
    ],
)
def test_one_line_and_two(shop: str, arguments: list[str], words: str) -> None:
    place = [] if arguments == ["frobnicate"] else ["--url", shop]
    printed = worm("table", *arguments, *place)
    assert (printed.code, printed.data) == (2, b"")
    assert printed.errors.startswith("worm: ")
    assert printed.errors.count("\n") == 1
    assert words in printed.errors


def test_an_empty_place_is_called_so(memory: str) -> None:
    for arguments in (["table", "query", "Customer"], ["forward", "customers"], ["verify", "customers"]):
        assert worm(*arguments, "--url", memory).errors.endswith("(it is empty: check the URL)\n")


def test_a_file_is_no_database_in_memory() -> None:
    fill("memory://no-files", customers=3)
    assert worm("table", "rebuild", "Customer", "--url", "memory://no-files").code == 0
    printed = worm("table", "files", "Customer", "--url", "memory://no-files")
    assert (printed.code, "use a folder or a bucket" in printed.errors) == (2, True)


def test_a_folder_and_the_model_in_it_are_the_same(shop: str) -> None:
    by_model = worm("table", "export", "Customer", "--url", shop).data
    assert worm("table", "export", "org/customers", "--url", shop).data == by_model
    assert worm("table", "export", "org/customers/", "--url", shop).data == by_model
    assert worm("table", "export", "org/acme/users", "--select", "id", "--url", shop).text == '{"id":"bob"}\n'
