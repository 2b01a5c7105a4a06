"""What the engine says of queries that it cannot answer, over topics that nobody reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pytest

from ottla.scan.columns import EVERYTHING, Filter
from ottla.scan.decoding import Decoded
from ottla.scan.fetching import Range
from ottla.sql.engine import Engine, QueryError, UnknownTableError, Values


class Empty:
    """Topics without a record."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def topics(self) -> list[str]:
        return list(self._names)

    def ranges(self, topic: str, passing: Filter = EVERYTHING) -> list[Range]:
        return []

    def read(self, wanted: Sequence[Range], names: frozenset[str], passing: Filter = EVERYTHING) -> Iterator[Decoded]:
        return iter(())

    def samples(self, wanted: Sequence[Range], names: frozenset[str], fetch_bytes: int) -> Iterator[Decoded]:
        return iter(())

    def close(self) -> None:
        pass


def engine(*topics: str, formats: Mapping[str, Values] | None = None) -> Engine:
    return Engine(Empty(*topics), formats)


def test_a_topic_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(UnknownTableError) as caught:
        engine("orders", "__consumer_offsets", "clicks").query("select * from nosuch")
    assert str(caught.value) == 'there is no topic nosuch; there are "clicks", "orders"'
    with pytest.raises(UnknownTableError, match="there is no topic nosuch; there are none"):
        engine().query("select * from nosuch")
    with pytest.raises(UnknownTableError, match=r"""there is no topic "shop.views"; there are "shop.views"$"""):
        engine("shop.views").query("select * from shop.views")


def test_a_format_of_a_topic_that_is_not_there_is_refused() -> None:
    with pytest.raises(UnknownTableError, match="there is no topic nosuch, whose format is given"):
        engine("orders", formats={"nosuch": Values("json", {})}).query("select * from orders")


def test_one_query_at_a_time() -> None:
    with pytest.raises(QueryError, match="only the last statement may be a query"):
        engine().query("select 1; select 2")
    assert engine().query("set threads = 1; select 7 as n").read_all().to_pylist() == [{"n": 7}]


@pytest.mark.parametrize("text", ["", ";", "-- nothing"])
def test_no_query(text: str) -> None:
    with pytest.raises(QueryError, match="there is no statement in the query"):
        engine().query(text)


def test_what_is_wrong_with_a_query_is_told_of_the_query_as_it_was_given() -> None:
    for ask in (engine("orders").query, engine("orders").plan):
        with pytest.raises(QueryError) as caught:
            ask("selec 1")
        assert "LINE 1: selec 1" in str(caught.value)
        assert "explain" not in str(caught.value)
