"""What people and programs are told of a plan."""

from __future__ import annotations

from tests.query.planner.test_planner import SHOP, request
from wormdb.query.execute.explain import explain_plan, render
from wormdb.query.execute.measure import Measurement
from wormdb.query.plan import Fetch, QueryPlan
from wormdb.query.planner.cache import PlanCache
from wormdb.query.planner.planner import make_plan

ASKED = request({"customer": "c1", "status": "paid"}, limit=20)

TEXT = """\
index_lookup: index byCustomer narrows, documents are tested for: status
about 9 requests, 98.0 KB, 10 rows, 1.1 ms of processor time
Part  limit 20
└─ Residual  {"status":{"$eq":"paid"}}
   └─ Fetch
      └─ IndexScan  byCustomer, 1 range
rejected
  index_lookup  index byCustomer (customer)  1.0 times the cost  (9 requests, 98.0 KB, 10 rows, 1.1 ms)
"""


def plan() -> QueryPlan:
    return make_plan(ASKED, SHOP)


def test_a_plan_reads_as_a_tree() -> None:
    text = str(explain_plan(plan(), SHOP))
    assert text.startswith(TEXT)
    assert text.endswith("\n  manifest_scan  manifest lacks: customer")
    assert text == render(explain_plan(plan(), SHOP))


def test_branches_are_drawn() -> None:
    union = make_plan(request({"$or": [{"email": 1}, {"customer": 2}]}), SHOP)
    assert "└─ Union\n   ├─ IndexScan  byEmail, 1 range\n   └─ IndexScan  byCustomer, 1 range" in str(
        explain_plan(union, SHOP)
    )


def test_a_program_reads_it_in_camel_case() -> None:
    told = explain_plan(plan(), SHOP).to_dict()
    assert list(told) == [
        "strategy",
        "reason",
        "estimatedRequests",
        "manifestFields",
        "plan",
        "estimate",
        "rejected",
        "cached",
    ]
    assert told["strategy"] == "index_lookup"
    assert told["estimatedRequests"] == 9
    assert told["manifestFields"] == ["name", "status", "total"]
    assert told["cached"] is False
    assert told["plan"]["name"] == "Part"
    assert told["plan"]["children"][0]["detail"] == '{"status":{"$eq":"paid"}}'
    assert set(told["rejected"][0]) == {"strategy", "what", "reason", "estimate"}
    assert set(told["rejected"][-1]) == {"strategy", "what", "reason"}


def test_the_cache_is_told() -> None:
    cache = PlanCache()
    make_plan(ASKED, SHOP, cache)
    again = explain_plan(make_plan(ASKED, SHOP, cache), SHOP)
    assert again.cached
    assert "(plan from the cache)" in str(again)


def test_what_happened_is_told_of_every_node() -> None:
    def taken_of(node: object) -> Measurement:
        return Measurement(5, 1.5, 3, 2_000, 0.0000012) if isinstance(node, Fetch) else Measurement()

    done = explain_plan(plan(), SHOP, taken_of=taken_of, taken=Measurement(2, 2.25, 3, 2_000, 0.0000012))
    assert (done.requests, done.bytes, done.rows, done.milliseconds, done.dollars) == (3, 2_000, 2, 2.25, 0.0000012)
    assert "took 3 requests, 2.0 KB, 2 rows, 2.2 ms, $0.0000012" in str(done)
    assert "Fetch  [3 requests, 2.0 KB, 5 rows, 1.5 ms]" in str(done)
    told = done.to_dict()
    assert (told["requests"], told["dollars"]) == (3, 0.0000012)
    assert told["plan"]["children"][0]["children"][0]["milliseconds"] == 1.5


def test_without_running_nothing_happened() -> None:
    told = explain_plan(plan(), SHOP)
    assert (told.requests, told.bytes, told.rows, told.milliseconds, told.dollars) == (None,) * 5
    assert "requests" not in told.to_dict()
