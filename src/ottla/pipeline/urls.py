"""Addresses in one spelling, by Spark's own functions.

Scheme and host in lower case, no default port, no user, no fragment; single slashes, none at the end; parameters in order, without
those that only say where a visitor came from.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

_PARTS = r"^\s*(?:([A-Za-z][A-Za-z0-9+.\-]*):)?(?://([^/?#\s]*))?([^?#\s]*)(?:\?([^#\s]*))?(?:#\S*)?\s*$"
_TRACKING = r"^(utm_\w+|gclid|fbclid|msclkid|sid|sessionid|phpsessid|jsessionid)(=|$)"


def page(url: str) -> Column:
    """The path, or null where there is none that could be a page."""
    host, path = _part(url, 2), _part(url, 3)
    tidy = F.regexp_replace(F.regexp_replace(path, r"/+", "/"), r"(?<=.)/$", "")
    return F.when(path.startswith("/"), tidy).when((path == "") & (host != ""), "/")


def normalized(url: str) -> Column:
    """The whole address; as it is where there is no page in it."""
    scheme = F.lower(_part(url, 1))
    host = F.regexp_replace(F.lower(_part(url, 2)), r"^.*@", "")
    host = F.when(scheme == "https", F.regexp_replace(host, r":443$", "")).otherwise(
        F.when(scheme == "http", F.regexp_replace(host, r":80$", "")).otherwise(host)
    )
    told = F.split(_part(url, 4), "&")
    kept = F.array_sort(F.filter(told, lambda one: (one != "") & ~F.lower(one).rlike(_TRACKING)))
    query = F.when(F.size(kept) > 0, F.concat(F.lit("?"), F.array_join(kept, "&"))).otherwise("")
    origin = F.when(host != "", F.concat(F.when(scheme != "", F.concat(scheme, F.lit("://"))).otherwise("//"), host))
    whole = F.concat(F.coalesce(origin, F.lit("")), page(url), query)
    return F.coalesce(whole, F.col(url))


def _part(url: str, group: int) -> Column:
    return F.regexp_extract(url, _PARTS, group)
