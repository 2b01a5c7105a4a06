"""Spark starts processes for every query. What they load without need, every query pays for."""

from __future__ import annotations

import subprocess
import sys

PLANNED = """
import sys
import pyspark.sql.worker.plan_data_source_read
from pyspark.sql.types import StructType, TimestampType
from pyspark_ottla.batch import OttlaBatchReader
from pyspark_ottla.options import parse_read_options

options = parse_read_options({"kafka.bootstrap.servers": "here:1", "subscribe": "a"}, streaming=False)
OttlaBatchReader(options, StructType().add("timestamp", TimestampType()))
print([name for name in ("pandas", "pyarrow.compute", "confluent_kafka", "ottla.log") if name in sys.modules])
"""
READ = """
import sys
import pyarrow as pa
from ottla.records.record import Record, build_batch
from ottla.scan.columns import EVERYTHING, RAW
from ottla.scan.decoding import Run, Source, decode
from ottla.scan.formats.jsonlines import JsonFormat

data = bytes(build_batch([Record(b"key", b'{"n": 1, "s": "a"}', 1)]))
[found] = decode(Run(data, 0, len(data)), Source("a", 0), frozenset(RAW.names) - {"headers"}, EVERYTHING)
schema = pa.schema([("n", pa.int32()), ("s", pa.string())])
columns, _ = JsonFormat(schema, kernel=True).decode(found.arrays["value"], schema.names)
assert columns["n"].to_pylist() == [1]
assert found.arrays["topic"].to_pylist() == ["a"]
print([name for name in ("pandas", "confluent_kafka") if name in sys.modules])
"""


def loaded(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_query_is_planned_without_what_only_reading_needs() -> None:
    assert loaded(PLANNED) == "[]\n"


def test_plain_columns_are_read_without_pandas_even_where_it_is_installed() -> None:
    assert loaded(READ) == "[]\n"
