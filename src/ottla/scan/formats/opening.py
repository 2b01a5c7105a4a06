"""A format by its name and options.

json                     columns given, by valueColumns ("page string, ms int") too, or inferred from samples
csv                      likewise; valueDelimiter, valueHeader (the names of the columns, as a line)
access, syslog           lines of web servers and of syslog, with columns of their own
avro, protobuf, thrift   valueSchemaFile; protobuf and thrift: valueMessage, the name of the message or struct
text, binary             the value as it is
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

import pyarrow as pa

from ottla.scan.columns import TIMESTAMP
from ottla.scan.errors import OptionError
from ottla.scan.formats.base import Format
from ottla.scan.formats.inference import infer
from ottla.scan.formats.jsonlines import JsonFormat
from ottla.scan.formats.plain import PlainFormat
from ottla.scan.formats.separated import CsvFormat, infer_csv
from ottla.scan.formats.texts import AccessFormat, SyslogFormat

_HERE = "ottla.scan.formats"
NAMES = ("json", "csv", "access", "syslog", "avro", "protobuf", "thrift", "text", "binary")
TYPES = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "timestamp": TIMESTAMP,
}
"""Of columns that are given as text, by names that SQL has for them."""


def open_format(
    name: str, schema: pa.Schema | None = None, options: Mapping[str, str] | None = None, *, threads: bool = True
) -> Format | None:
    """The format of this name with these columns. None if they are not given and have to be inferred from samples."""
    given = {key.lower(): value for key, value in (options or {}).items()}
    if schema is None and "valuecolumns" in given:
        schema = parse_columns(given["valuecolumns"])
    match name.lower():
        case "json":
            return None if schema is None else JsonFormat(schema, threads=threads)
        case "csv":
            if schema is None:
                return None
            header = given.get("valueheader")
            delimiter = given.get("valuedelimiter", ",")
            return CsvFormat(_in_order(schema, header, delimiter), delimiter=delimiter, threads=threads)
        case "access" | "common" | "combined":
            return AccessFormat()
        case "syslog":
            return SyslogFormat()
        case "avro":
            return _importing("fastavro", lambda: import_module(f"{_HERE}.avro").open_avro(_file(given)))
        case "protobuf":
            return _importing(
                "protobuf", lambda: import_module(f"{_HERE}.protobuf").open_protobuf(_file(given), _message(given))
            )
        case "thrift":
            compact = given.get("valueprotocol", "binary").lower() == "compact"
            return _importing(
                "thriftpy2",
                lambda: import_module(f"{_HERE}.thrift").open_thrift(_file(given), _message(given), compact=compact),
            )
        case "text" | "binary" as plain:
            return PlainFormat(text=plain == "text")
    raise OptionError(f"there is no format {name}: give one of {', '.join(NAMES)}")


def infer_format(name: str, values: Sequence[bytes | None], options: Mapping[str, str] | None = None) -> Format:
    """The format of this name with the columns that samples show."""
    given = {key.lower(): value for key, value in (options or {}).items()}
    if name.lower() == "csv":
        found = infer_csv(values, delimiter=given.get("valuedelimiter", ","), header=given.get("valueheader"))
    else:
        found = infer(values)
    if found is None:
        what = "most values are no JSON objects" if any(values) else "there are no records to infer them from"
        raise OptionError(f"the columns of {name} values are not known: {what}; give them by a schema")
    made = open_format(name, found, options)
    assert made is not None
    return made


def parse_columns(text: str) -> pa.Schema:
    """``page string, ms int``, also with semicolons, where commas mean something else."""
    found = [column.split() for column in text.replace(";", ",").split(",") if column.strip()]
    if not found or not all(len(words) == 2 and words[1].lower() in TYPES for words in found):
        raise OptionError(
            f"valueColumns={text}: give names and types, as page string, ms int; types are {', '.join(TYPES)}"
        )
    return pa.schema([(name, TYPES[kind.lower()]) for name, kind in found])


def _importing(package: str, opened: Callable[[], Format]) -> Format:
    """Formats whose libraries need not be there."""
    try:
        return opened()
    except ImportError as error:
        raise OptionError(f"{error.name or package} is not installed: pip install 'ottla[formats]'") from None


def _file(given: Mapping[str, str]) -> str:
    if "valueschemafile" not in given:
        raise OptionError("valueSchemaFile is missing: give the file with the schema of the values")
    return given["valueschemafile"]


def _message(given: Mapping[str, str]) -> str:
    if "valuemessage" not in given:
        raise OptionError("valueMessage is missing: give the name of the message or struct in the schema")
    return given["valuemessage"]


def _in_order(schema: pa.Schema, header: str | None, delimiter: str) -> pa.Schema:
    """The columns of a line of CSV: those of its header, of which the schema may have some."""
    if header is None:
        return schema
    names = [name.strip() for name in header.split(delimiter)]
    return pa.schema([schema.field(name) if name in schema.names else pa.field(name, pa.string()) for name in names])
