"""What Spark sees of Ottla. Everything else is imported when it is needed: Spark imports this module in every session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from ottla.scan.errors import OptionError

if TYPE_CHECKING:
    from pyspark_ottla.options import ReadOptions


class OttlaSource(DataSource):
    """``spark.read.format("ottla")`` and its relatives; the options are in docs/spark.md."""

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> StructType:
        from pyspark_ottla.rows import default_schema

        return default_schema(self._read_options(streaming=False, lenient=True))

    def reader(self, schema: StructType) -> DataSourceReader:
        from pyspark_ottla.batch import OttlaBatchReader, OttlaPushingReader, may_push

        options = self._read_options(streaming=False)
        return (OttlaPushingReader if may_push(options) else OttlaBatchReader)(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's
        from pyspark_ottla.stream import OttlaStreamReader

        return OttlaStreamReader(self._read_options(streaming=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from pyspark_ottla.sink import OttlaBatchWriter, parse_write_options

        if overwrite:
            raise OptionError("a topic cannot be overwritten: use mode append")
        return OttlaBatchWriter(parse_write_options(dict(self.options.items()), schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802  # Spark's
        from pyspark_ottla.sink import OttlaStreamWriter, parse_write_options

        return OttlaStreamWriter(parse_write_options(dict(self.options.items()), schema))

    def _read_options(self, *, streaming: bool, lenient: bool = False) -> ReadOptions:
        from pyspark_ottla.options import parse_read_options

        options = dict(self.options.items())
        if lenient:
            # Spark asks for the columns before it tells whether this is a stream.
            for name in list(options):
                if name.lower().startswith(("startingoffsets", "endingoffsets")):
                    del options[name]
        return parse_read_options(options, streaming=streaming)
