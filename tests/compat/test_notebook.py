"""The notebook about SQL runs from its first cell to its last, and its cells show what they are said to show."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "sql.ipynb"
pytestmark = [
    # Of py4j and pyspark, which close their sockets when they are collected.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def run(*, with_spark: bool) -> tuple[dict[str, Any], list[Any]]:
    """The names that are left, and what each cell shows: the value of its last line. The cluster is stopped in any case."""
    names: dict[str, Any] = {}
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    chosen = [cell for cell in cells if with_spark or "spark" not in cell["metadata"].get("tags", ())]
    try:
        shown = [value_of("".join(cell["source"]), names) for cell in chosen]
    except BaseException:
        if "cluster" in names:
            names["cluster"].stop()
        raise
    return names, shown


def value_of(source: str, names: dict[str, Any]) -> Any:
    *before, last = ast.parse(source).body
    if not isinstance(last, ast.Expr):
        before, last = [*before, last], ast.Expr(ast.Constant(None))
    exec(compile(ast.Module(before, []), "cell", "exec"), names)
    expression = ast.fix_missing_locations(ast.Expression(last.value))
    return eval(compile(expression, "cell", "eval"), names)


@pytest.mark.parametrize("with_spark", [False, pytest.param(True, marks=pytest.mark.long)])
def test_the_notebook_runs(with_spark: bool) -> None:
    names, shown = run(with_spark=with_spark)
    _, _, pages, corrupt, late, schema, frame, *spark, _ = shown
    assert [(row["page"], row["clicks"]) for row in pages.rows()] == [(f"/{number}", 100) for number in range(5)]
    assert "<td>/0</td>" in pages._repr_html_()
    assert [row["_corrupt"] for row in corrupt] == ["no click at all"]
    assert [row["clicks"] for row in late] == [60]
    assert schema.names == ["name", "clicks"]
    assert list(frame["clicks"]) == [143] * 6 + [142]
    if with_spark:
        [rows] = spark
        assert [tuple(row) for row in rows] == [(None, 1), *((f"/{number}", 100) for number in range(10))]
        assert [tuple(row) for row in names["spark_rows"]] == [
            tuple(row.values()) for row in names["table"].to_pylist()
        ]
