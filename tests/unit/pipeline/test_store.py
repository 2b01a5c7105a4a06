"""The tables on disk, without Spark: what counts, what goes, and who may write."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ottla.pipeline.store import File, State, Store, StoreError, days_of, hours_around
from ottla.pipeline.tables import TABLES
from ottla.scan import manifest

NOW = timedelta(0)
LATER = timedelta(hours=1)


def write(store: Store, table: str, batch: str, hour: str, rows: int) -> list[File]:
    """As Spark does it."""
    date, _, number = hour.partition("T")
    folder = store.fresh(table, batch)
    (folder / f"date={date}" / f"hour={number}").mkdir(parents=True)
    pq.write_table(pa.table({"x": list(range(rows))}), folder / f"date={date}" / f"hour={number}" / "part-0.parquet")
    return store.written(folder)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "data")
    with made.locked():
        made.claim("pages")
    return made


def test_only_what_was_committed_counts_and_the_rest_is_swept(store: Store) -> None:
    state = store.load()
    state.add("pages", write(store, "pages", "000", "2024-02-29T12", 3))
    state.batch = 0
    store.commit(state, keep=LATER)
    [lost] = write(store, "pages", "001", "2024-02-29T12", 4)
    assert [path.name for path in manifest.tables(store.directory)["pages"]] == ["part-0.parquet"]
    assert store.load().files("pages")[0].rows == 3
    assert (store.directory / lost.path).exists()
    with store.locked():
        assert not (store.directory / lost.path).exists()
        assert (store.directory / state.files("pages")[0].path).exists()


def test_what_is_replaced_stays_for_those_who_read_it_and_goes_later(store: Store) -> None:
    state = store.load()
    first = write(store, "pages", "000", "2024-02-29T12", 3)
    state.add("pages", first)
    store.commit(state, keep=LATER)
    state = store.load()
    state.add("pages", write(store, "pages", "001", "2024-02-29T12", 5), instead=first)
    store.commit(state, keep=LATER)
    assert [one.rows for one in store.load().files("pages")] == [5]
    with store.locked():
        assert (store.directory / first[0].path).exists()
    store.commit(store.load(), keep=NOW)
    assert not (store.directory / first[0].path).exists()
    assert store.load().retired == []


def test_what_is_not_a_table_is_never_swept(store: Store) -> None:
    mine = store.directory / "mine" / "folder"
    mine.mkdir(parents=True)
    with store.locked():
        assert mine.exists()


def test_one_writes_at_a_time(store: Store) -> None:
    with store.locked(), pytest.raises(StoreError, match="another pipeline writes"), Store(store.directory).locked():
        pass


def test_a_manifest_of_another_version_or_broken_is_refused(store: Store) -> None:
    (store.directory / manifest.NAME).write_text(json.dumps({"version": 2}))
    with pytest.raises(manifest.ManifestError, match="has version 2"):
        store.load()
    (store.directory / manifest.NAME).write_text("{")
    with pytest.raises(manifest.ManifestError, match=manifest.NAME):
        store.load()
    with pytest.raises(manifest.ManifestError, match="has a pipeline run there"):
        manifest.tables(store.directory / "pages")


def test_the_salt_is_made_once_and_for_its_owner_alone(store: Store) -> None:
    assert store.salt() == store.salt()
    assert len(store.salt()) == 32
    assert (store.directory / "salt").stat().st_mode & 0o077 == 0


def test_totals_add_up() -> None:
    state = State()
    state.count({"records": 3})
    state.count({"records": 4, "robots": 1})
    assert state.totals == {"records": 7, "robots": 1}


def test_the_hours_that_an_event_changes_and_those_needed_for_them() -> None:
    assert hours_around({"2024-02-29T23"}, back=1, ahead=1) == {"2024-02-29T22", "2024-02-29T23", "2024-03-01T00"}
    assert len(days_of({"2024-02-29T23", "2024-02-29T01"})) == 24
    ads, sessions, pages = TABLES["ads"], TABLES["sessions"], TABLES["pages"]
    # A click changes what is said of the hour before, which is made of its clicks in the hour behind.
    assert ads.changed_by({"2024-02-29T12"}) == {"2024-02-29T11", "2024-02-29T12"}
    assert ads.made_from(ads.changed_by({"2024-02-29T12"})) == {"2024-02-29T11", "2024-02-29T12", "2024-02-29T13"}
    assert len(sessions.made_from(sessions.changed_by({"2024-02-29T12"}))) == 24
    assert pages.made_from(pages.changed_by({"2024-02-29T12"})) == {"2024-02-29T12"}
