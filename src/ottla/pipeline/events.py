"""Events as they arrive: JSON objects with an id, a kind and a time, and by kind the fields that must be there."""

from __future__ import annotations

FIELDS = {
    "id": "STRING",
    "kind": "STRING",
    "time": "STRING",
    "visitor": "STRING",
    "ip": "STRING",
    "agent": "STRING",
    "url": "STRING",
    "element": "STRING",
    "query": "STRING",
    "ad": "STRING",
    "impression": "STRING",
    "service": "STRING",
    "name": "STRING",
    "value": "DOUBLE",
    "level": "STRING",
    "message": "STRING",
}
"""What is read of an event; anything else in it is passed over."""

REQUIRED = {
    "view": ("visitor", "url"),
    "click": ("visitor", "url", "element"),
    "search": ("visitor", "url", "query"),
    "impression": ("visitor", "url", "ad", "impression"),
    "ad_click": ("visitor", "url", "ad", "impression"),
    "metric": ("service", "name", "value"),
    "log": ("service", "level", "message"),
}
"""The kinds of events, and what each of them has to say."""

ORIGIN = {"_topic": "STRING", "_partition": "INT", "_offset": "LONG", "_timestamp": "TIMESTAMP", "_value": "BINARY"}
CORRUPT = "_corrupt"
CARRIED = {"_key": "BINARY", "_headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>"}
"""What only those need who send records on as they came."""


def ddl(columns: dict[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


SOURCE_SCHEMA = ddl({**FIELDS, **ORIGIN, CORRUPT: "BINARY"})
"""The columns to ask Spark's source for, with ``valueFormat=json``."""
CARRYING_SCHEMA = f"{SOURCE_SCHEMA}, {ddl(CARRIED)}"
"""Those for a pipeline that sends its dead letters to a topic."""
