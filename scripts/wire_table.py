"""Write ``src/ottla/wire/messages.txt`` from Kafka's own message definitions.

    scripts/wire_table.py messages-3.9.1.json messages-4.3.1.json

Each file is a list of Kafka's definitions, as ``clients/src/main/resources/common/message/*.json`` has them. The first
is the base and is taken whole, with the controller's messages that Kafka 4 dropped. From the second come the versions
and APIs that later clients use where they are offered, and the lowest versions that Kafka 4 still speaks. The result is
checked in; this needs to be run only to take over another release.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

TABLE = Path(__file__).resolve().parent.parent / "src" / "ottla" / "wire" / "messages.txt"

HEAD = """\
# The messages of Kafka 3.9, with later versions and APIs that clients use where they are offered.
# Written by scripts/wire_table.py; how to read it: table.py.
"""

LATER = (
    "Produce",
    "Fetch",
    "ListOffsets",
    "Metadata",
    "OffsetCommit",
    "OffsetFetch",
    "DescribeGroups",
    "InitProducerId",
    "EndTxn",
    "WriteTxnMarkers",
    "TxnOffsetCommit",
    "DescribeLogDirs",
    "AlterPartitionReassignments",
    "UpdateFeatures",
    "DescribeCluster",
    "ListTransactions",
    "ConsumerGroupHeartbeat",
    "ConsumerGroupDescribe",
    "ListConfigResources",
)
"""APIs of which clients use the later release's versions."""

RENAMED = {"ListClientMetricsResources": "ListConfigResources"}
"""The same key and the same bytes in version 0; the later name covers both."""

ADDED = ["EndTxnMarker", "ControlRecordTypeSchema"]
"""What the base encodes by hand and the later release has in its definitions."""

Message = dict[str, Any]


def merged(base: list[Message], later: list[Message]) -> list[Message]:
    newer = {message["name"]: message for message in later if message["validVersions"] != "none"}
    wanted = [name + kind for name in LATER for kind in ("Request", "Response")]
    renamed = {name + kind for name in RENAMED for kind in ("Request", "Response")}
    known = [message for message in base if message["name"] not in renamed]
    found = [_merge(message, newer.get(message["name"]), take=message["name"] in wanted) for message in known]
    names = {message["name"] for message in found}
    found += [newer[name] for name in (*wanted, *ADDED) if name not in names]
    _part_structures(found)
    return sorted(found, key=lambda message: (message.get("apiKey", 1000), message["type"], message["name"]))


def _merge(old: Message, new: Message | None, *, take: bool) -> Message:
    if new is None:
        return old
    low, new_low = (message["validVersions"].partition("-")[0] for message in (old, new))
    made = {**old, "floor": new_low}
    if take:
        made |= {
            "validVersions": f"{low}-{new['validVersions'].rpartition('-')[2]}",
            "latestVersionUnstable": new.get("latestVersionUnstable", False),
            "fields": _merge_fields(old["fields"], new["fields"]),
            "commonStructs": _merge_fields(old.get("commonStructs", []), new.get("commonStructs", [])),
        }
    return made


def _merge_fields(old: list[Message], new: list[Message]) -> list[Message]:
    """The later fields, with those that went behind the ones they followed."""
    before = {field["name"]: field for field in old}
    made = []
    for field in new:
        was = before.get(field["name"])
        if was and "fields" in field:
            field = {**field, "fields": _merge_fields(was.get("fields", []), field["fields"])}  # noqa: PLW2901
        made.append(field)
    names = [field["name"] for field in made]
    for at, field in enumerate(old):
        if field["name"] not in names:
            place = names.index(old[at - 1]["name"]) + 1 if at else 0
            made.insert(place, field)
            names.insert(place, field["name"])
    return made


def _part_structures(messages: list[Message]) -> None:
    """Request and response share a module, so structures of one name in both get a name of their own."""
    for key in {message["apiKey"] for message in messages if "apiKey" in message}:
        pair = [message for message in messages if message.get("apiKey") == key]
        counted = Counter(name for message in pair for name in _structures(message))
        twice = {name for name, times in counted.items() if times > 1}
        for message in pair:
            prefix = message["type"].capitalize()
            message["fields"] = _renamed(message["fields"], twice, prefix)
            message["commonStructs"] = [
                {**struct, "name": prefix * (struct["name"] in twice) + struct["name"]}
                for struct in _renamed(message.get("commonStructs", []), twice, prefix)
            ]


def _structures(message: Message) -> set[str]:
    def inside(fields: list[Message]) -> set[str]:
        return {field["type"].removeprefix("[]") for field in fields if "fields" in field}.union(
            *(inside(field.get("fields", [])) for field in fields)
        )

    shared = message.get("commonStructs", [])
    return inside(message["fields"]).union(*(inside(struct["fields"]) | {struct["name"]} for struct in shared))


def _renamed(fields: list[Message], twice: set[str], prefix: str) -> list[Message]:
    made = []
    for field in fields:
        kind = field.get("type", "")
        array, name = ("[]" if kind.startswith("[]") else ""), kind.removeprefix("[]")
        changed = {**field, "type": array + prefix * (name in twice) + name}
        if "fields" in field:
            changed["fields"] = _renamed(field["fields"], twice, prefix)
        made.append(changed)
    return made


def block(message: Message) -> str:
    versions = message["validVersions"]
    words = [message["name"]]
    if "apiKey" in message:
        words.append(f"key={message['apiKey']}")
    words.append(f"versions={versions}")
    if message["flexibleVersions"] != "none":
        words.append(f"flexible={message['flexibleVersions']}")
    low, _, high = versions.partition("-")
    if int(low) < int(message.get("floor", 0)) <= int(high or low):
        words.append(f"floor={message['floor']}")
    if message.get("latestVersionUnstable"):
        words.append("unstable")
    lines = [" ".join(words)]
    for struct in message.get("commonStructs", []):
        lines += [f"  struct {struct['name']}", *_lines(struct["fields"], 4)]
    return "\n".join([*lines, *_lines(message["fields"], 2)]) + "\n"


def _lines(fields: list[Message], indent: int) -> list[str]:
    lines = []
    for field in fields:
        words = [field["name"], field["type"], field["versions"]]
        if "nullableVersions" in field:
            words.append(f"null={field['nullableVersions']}")
        if "tag" in field:
            assert field["taggedVersions"] == field["versions"], field
            words.append(f"tag={field['tag']}")
        default = _default(field)
        if default is not None:
            words.append(f"default={default}")
        words += ["ignorable"] * bool(field.get("ignorable"))
        words += ["rigid"] * (field.get("flexibleVersions") == "none")
        lines.append(" " * indent + " ".join(words))
        lines += _lines(field.get("fields", []), indent + 2)
    return lines


def _default(field: Message) -> str | None:
    text = str(field.get("default", "")).lower()
    if text in ("", "0", "false", "none"):  # a null that is no string is no default to Kafka either
        return None
    return str(int(text, 16)) if text.startswith("0x") else text


def main() -> None:
    base, later = (json.loads(Path(name).read_text(encoding="utf-8")) for name in sys.argv[1:3])
    TABLE.write_text("\n".join([HEAD, *map(block, merged(base, later))]), encoding="utf-8")


if __name__ == "__main__":
    main()
