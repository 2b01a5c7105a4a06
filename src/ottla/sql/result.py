"""What a query from Python gives."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import pyarrow as pa

from ottla.sql.output import plain

if TYPE_CHECKING:
    from pandas import DataFrame as Pandas
    from pyspark.sql import DataFrame, SparkSession

_SHOWN = 20


class Result:
    """The rows of a query, in memory, in whichever form is needed next."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def arrow(self) -> pa.Table:
        return self._table

    def pandas(self) -> Pandas:
        return self._table.to_pandas()

    def spark(self, session: SparkSession) -> DataFrame:
        made: DataFrame = session.createDataFrame(self._table)
        return made

    def rows(self) -> list[dict[str, object]]:
        found: list[dict[str, object]] = self._table.to_pylist()
        return found

    def __len__(self) -> int:
        rows: int = self._table.num_rows
        return rows

    def __repr__(self) -> str:
        return f"{len(self)} rows of {', '.join(self._table.schema.names)}"

    def _repr_html_(self) -> str:
        """For notebooks."""
        names = "".join(f"<th>{html.escape(name)}</th>" for name in self._table.schema.names)
        lines = [
            "<tr>" + "".join(f"<td>{html.escape(str(plain(value)))}</td>" for value in row.values()) + "</tr>"
            for row in self._table.slice(0, _SHOWN).to_pylist()
        ]
        return f"<table><tr>{names}</tr>{''.join(lines)}</table><p>{len(self)} rows</p>"
