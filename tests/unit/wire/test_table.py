from __future__ import annotations

from ottla.wire import table
from ottla.wire.table import NONE, OPEN, Schema, Versions

SCHEMAS = [table.schema(name) for name in table.names()]


def test_a_block_of_the_table_is_read() -> None:
    schema = table.schema("FetchRequest")
    assert (schema.key, schema.versions, schema.flexible, schema.floor) == (1, (0, 18), (12, OPEN), 4)
    fields = {field.name: field for field in schema.fields}
    assert list(fields)[:3] == ["ClusterId", "ReplicaId", "ReplicaState"]
    cluster_id = fields["ClusterId"]
    assert (cluster_id.type, cluster_id.tag, cluster_id.nullable, cluster_id.ignorable) == (
        "string",
        0,
        (12, OPEN),
        True,
    )
    assert cluster_id.default_source == "None"
    assert (fields["ReplicaId"].versions, fields["ReplicaId"].default_source) == ((0, 14), "-1")
    assert (fields["Topics"].type, fields["Topics"].is_array) == ("FetchTopic", True)
    assert list(schema.structs) == ["ReplicaState", "FetchTopic", "FetchPartition", "ForgottenTopic"]
    assert schema.structs["FetchPartition"][-1].tag == 1


def test_a_structure_that_fields_share_stands_by_itself() -> None:
    schema = table.schema("LeaderAndIsrRequest")
    assert schema.fields[0].name == "ControllerId"
    assert "LeaderAndIsrPartitionState" in schema.structs
    users = [field for fields in (schema.fields, *schema.structs.values()) for field in fields]
    assert [field.name for field in users if field.type == "LeaderAndIsrPartitionState"] == [
        "UngroupedPartitionStates",
        "PartitionStates",
    ]


def test_versions() -> None:
    assert 3 in Versions(3, 3)
    assert 4 not in Versions(3, 3)
    assert OPEN in Versions(9, OPEN)
    assert 0 not in NONE


def test_names_in_python_are_kafkas_names() -> None:
    spelled = {
        "TimeoutMs": "timeout_ms",
        "IsKRaftController": "is_kraft_controller",
        "V3AndBelowTopics": "v3_and_below_topics",
    }
    assert {name: table.snake(name) for name in spelled} == spelled


def test_every_structure_that_is_named_is_there_and_none_contains_itself() -> None:
    for schema in SCHEMAS:
        for name in schema.structs:
            assert name not in _inside(schema, name)


def test_modules_keep_the_names_of_their_classes_apart() -> None:
    for module in {schema.module for schema in SCHEMAS}:
        names = [name for schema in SCHEMAS if schema.module == module for name in (schema.name, *schema.structs)]
        assert len(names) == len(set(names)), module


def test_tags_count_from_zero() -> None:
    for schema in SCHEMAS:
        for fields in (schema.fields, *schema.structs.values()):
            tags = sorted(field.tag for field in fields if field.tag is not None)
            assert tags == list(range(len(tags))), schema.name


def _inside(schema: Schema, name: str) -> set[str]:
    direct = {field.type for field in schema.structs[name] if field.is_struct}
    return direct.union(*(_inside(schema, inner) for inner in direct))
