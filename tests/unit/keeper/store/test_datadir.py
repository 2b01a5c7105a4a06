from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from ottla.base.errors import ConfigError, CorruptionError
from ottla.keeper.proto.txns import Entry, decode_txn
from ottla.keeper.store import DataDir, Recovered, encode_snapshot
from tests.unit.keeper.store.faults import kill
from tests.unit.keeper.store.histories import History, rich_history, seen


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def recover(data: Path) -> Recovered:
    store = DataDir(data)
    try:
        return store.recover()
    finally:
        store.close()


def names(data: Path, prefix: str) -> list[str]:
    return sorted(path.name for path in (data / "version-2").glob(f"{prefix}.*"))


def append(store: DataDir, entries: list[Entry]) -> None:
    store.write_accepted_epoch(2)  # as before any transaction of an epoch
    store.log.append(entries)
    store.log.sync()


class TestOpening:
    def test_an_empty_place_is_a_blank_server(self, data: Path) -> None:
        recovered = recover(data / "below" / "that")
        assert seen(recovered.tree) == seen(History().tree)
        assert recovered.last_zxid == recovered.accepted_epoch == recovered.current_epoch == 0
        assert names(data / "below" / "that", "snapshot") == ["snapshot.0"]
        assert names(data / "below" / "that", "log") == []

    def test_only_one_server_at_a_time(self, data: Path) -> None:
        first = DataDir(data)
        with pytest.raises(ConfigError, match=rf"in use by another server, process {os.getpid()}"):
            DataDir(data)
        first.close()
        DataDir(data).close()

    def test_neither_directory_may_be_shared(self, tmp_path: Path) -> None:
        first = DataDir(tmp_path / "a", tmp_path / "logs")
        with pytest.raises(ConfigError, match="in use"):
            DataDir(tmp_path / "b", tmp_path / "logs")
        DataDir(tmp_path / "b").close()  # its lock was given back
        first.close()

    def test_two_names_of_one_place(self, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "real")
        store = DataDir(tmp_path / "real", tmp_path / "link")
        assert seen(store.recover().tree) == seen(History().tree)
        with pytest.raises(ConfigError, match="in use"):
            DataDir(tmp_path / "link")
        store.close()
        DataDir(tmp_path / "link").close()

    def test_logs_may_have_a_place_of_their_own(self, tmp_path: Path) -> None:
        history = rich_history()
        store = DataDir(tmp_path / "data", tmp_path / "logs")
        store.recover()
        append(store, history.entries)
        store.close()
        assert names(tmp_path / "logs", "log") == ["log.1"]
        assert names(tmp_path / "data", "log") == []
        store = DataDir(tmp_path / "data", tmp_path / "logs")
        assert seen(store.recover().tree) == seen(history.tree)
        store.close()

    def test_files_in_the_wrong_place_are_refused(self, tmp_path: Path) -> None:
        store = DataDir(tmp_path / "data")
        store.recover()
        append(store, History().fill(3))
        store.close()
        with pytest.raises(ConfigError, match=r"log\.1 lies in the wrong directory.*dataLogDir"):
            DataDir(tmp_path / "data", tmp_path / "logs")
        with pytest.raises(ConfigError, match=r"snapshot\.0 lies in the wrong directory"):
            DataDir(tmp_path / "other", tmp_path / "data")

    def test_what_was_half_written_is_cleared_away(self, data: Path) -> None:
        recover(data)
        (data / "version-2" / "tmp.snapshot.5").write_bytes(b"half")
        recover(data)
        assert names(data, "tmp") == []

    def test_what_a_killed_server_left_is_synced_before_it_counts(
        self, data: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        history = History()
        store = DataDir(data)
        store.recover()
        store.log.append(history.fill(5))
        kill(store)
        synced = []
        real = os.fsync

        def fsync(fd: int) -> None:
            synced.append(Path(f"/proc/self/fd/{fd}").readlink().name)
            real(fd)

        monkeypatch.setattr(os, "fsync", fsync)
        assert recover(data).last_zxid == 5
        assert {"log.1", "snapshot.0", "version-2"} <= set(synced)


class TestSnapshots:
    def test_transactions_go_on_while_one_is_written(self, data: Path) -> None:
        history = History()
        store = DataDir(data)
        store.recover()
        append(store, history.fill(40))
        with store.begin_snapshot(history.tree) as writing:
            for chunk in writing.chunks:
                writing.write(chunk)
                store.log.append(history.fill(2))
            store.log.append(history.fill(2))
            assert writing.commit() is True
        assert store.log.durable_zxid == store.log.last_zxid  # never a snapshot ahead of its log
        kill(store)
        recovered = recover(data)
        assert recovered.snapshot_zxid == 40
        assert seen(recovered.tree) == seen(history.tree)
        assert recovered.digest_mismatches == 0

    def test_one_that_is_not_committed_leaves_nothing(self, data: Path) -> None:
        store = DataDir(data)
        tree = store.recover().tree
        with pytest.raises(OSError, match="disk"), store.begin_snapshot(tree) as writing:
            writing.write(next(writing.chunks))
            raise OSError("disk full")
        assert names(data, "tmp") == []
        store.close()

    def test_one_of_a_history_that_is_gone_is_not_wanted(self, data: Path) -> None:
        history = History()
        store = DataDir(data)
        store.recover()
        append(store, history.fill(20))
        writing = store.begin_snapshot(history.tree)
        for chunk in writing.chunks:
            writing.write(chunk)
        store.truncate_to(10)
        assert writing.commit() is False
        writing.abort()
        assert names(data, "snapshot") == ["snapshot.0"]
        store.close()


class TestTruncation:
    @pytest.mark.parametrize("zxid", [0, 1, 9, 10, 11, 19, 20, 29])
    def test_the_tree_is_that_of_the_zxid(self, data: Path, zxid: int) -> None:
        history = History()
        store = DataDir(data)
        store.recover()
        for _ in range(3):
            append(store, history.fill(10))
            store.log.roll()
            if history.tree.last_zxid < 30:
                store.save_snapshot(history.tree)
        end, tree = store.truncate_to(zxid)
        expected = History()
        for entry in history.entries[:zxid]:
            expected.tree.apply(decode_txn(entry.raw))
        assert end == zxid
        assert seen(tree) == seen(expected.tree)
        onward = History(tree)
        onward.create("/onward")
        append(store, onward.entries)
        kill(store)
        recovered = recover(data)
        assert seen(recovered.tree) == seen(onward.tree)
        assert recovered.digest_mismatches == 0

    def test_a_zxid_that_never_was_ends_before_it(self, data: Path) -> None:
        history = rich_history()
        store = DataDir(data)
        store.recover()
        append(store, history.entries)
        end, tree = store.truncate_to(0xFFFF)
        assert end == tree.last_zxid == 6
        store.close()
        assert recover(data).last_zxid == 6

    def test_before_the_oldest_snapshot_nothing_changes(self, data: Path) -> None:
        history = History()
        store = DataDir(data)
        store.recover()
        store.log.roll()
        append(store, history.fill(10))
        store.save_snapshot(history.tree)
        store.purge(1)
        end, tree = store.truncate_to(5)
        assert end == 10
        assert seen(tree) == seen(history.tree)
        store.close()
        assert seen(recover(data).tree) == seen(history.tree)

    def test_a_snapshot_that_shows_more_goes(self, data: Path) -> None:
        """Named after its start, it holds effects of what came until its end."""
        history = History()
        store = DataDir(data)
        store.recover()
        append(store, history.fill(10))
        with store.begin_snapshot(history.tree) as writing:
            append(store, history.fill(5))
            for chunk in writing.chunks:
                writing.write(chunk)
            writing.commit()
        assert names(data, "snapshot") == ["snapshot.0", "snapshot.a"]
        end, tree = store.truncate_to(12)
        expected = History()
        for entry in history.entries[:12]:
            expected.tree.apply(decode_txn(entry.raw))
        assert (end, seen(tree)) == (12, seen(expected.tree))
        assert names(data, "snapshot") == ["snapshot.0"]
        store.close()
        assert seen(recover(data).tree) == seen(expected.tree)

    def test_a_failure_ends_the_log(self, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        store = DataDir(data)
        store.recover()
        history = History()
        append(store, history.fill(10))
        store.save_snapshot(history.tree)
        append(store, history.fill(10))

        def fail(*_: object, **__: object) -> None:
            raise OSError("no")

        with monkeypatch.context() as patch:
            patch.setattr(os, "unlink", fail)
            with pytest.raises(OSError, match="no"):
                store.truncate_to(5)
        with pytest.raises(OSError, match="out of use"):
            store.log.sync()
        store.close()
        assert seen(recover(data).tree) == seen(history.tree)


class TestInstallation:
    def test_it_replaces_whatever_was_there(self, data: Path) -> None:
        old, new = rich_history(), History()
        new.fill(7)
        store = DataDir(data)
        store.recover()
        append(store, old.entries)
        store.save_snapshot(old.tree)
        tree = store.install_snapshot(encode_snapshot(new.tree), 7)
        assert seen(tree) == seen(new.tree)
        assert names(data, "snapshot") == ["snapshot.7"]
        assert names(data, "log") == names(data, "installed") == []
        append(store, new.fill(3))
        kill(store)
        assert seen(recover(data).tree) == seen(new.tree)

    def test_in_pieces(self, data: Path) -> None:
        new = History()
        new.fill(7)
        store = DataDir(data)
        store.recover()
        installation = store.begin_install(7)
        for chunk in encode_snapshot(new.tree, slice_nodes=1):
            installation.write(chunk)
        zxid, tree = installation.commit()
        assert (zxid, seen(tree)) == (7, seen(new.tree))
        assert store.log.last_zxid == 7
        store.close()

    def test_a_broken_one_changes_nothing(self, data: Path) -> None:
        old, new = rich_history(), History()
        new.fill(7)
        store = DataDir(data)
        store.recover()
        append(store, old.entries)
        with pytest.raises(CorruptionError, match=r"ends in the middle|bytes announced"):
            store.install_snapshot([b"".join(encode_snapshot(new.tree))[:-30]], 7)
        assert names(data, "tmp") == names(data, "installed") == []
        append(store, [old.create("/still")])
        store.close()
        assert seen(recover(data).tree) == seen(old.tree)

    def test_one_that_was_given_up_changes_nothing(self, data: Path) -> None:
        store = DataDir(data)
        store.recover()
        installation = store.begin_install(7)
        installation.write(b"some")
        installation.abort()
        assert names(data, "tmp") == []
        store.close()

    def test_a_failure_half_way_ends_the_log(self, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        old, new = rich_history(), History()
        new.fill(7)
        store = DataDir(data)
        store.recover()
        append(store, old.entries)

        def fail(*_: object, **__: object) -> None:
            raise OSError("no")

        with monkeypatch.context() as patch:
            patch.setattr(os, "unlink", fail)
            with pytest.raises(OSError, match="no"):
                store.install_snapshot(encode_snapshot(new.tree), 7)
        with pytest.raises(OSError, match="out of use"):
            store.log.append([])
        store.close()
        assert seen(recover(data).tree) == seen(new.tree)

    def test_a_damaged_unfinished_one_refuses_before_the_old_history_goes(self, data: Path) -> None:
        store = DataDir(data)
        store.recover()
        append(store, rich_history().entries)
        store.close()
        (data / "version-2" / "installed.7").write_bytes(b"")
        with pytest.raises(CorruptionError, match=r"installed\.7"):
            recover(data)
        assert names(data, "log") == ["log.1"]


class TestPurging:
    def stored(self, data: Path) -> tuple[DataDir, History]:
        history = History()
        store = DataDir(data)
        store.recover()
        for _ in range(5):
            append(store, history.fill(10))
            store.log.roll()
            store.save_snapshot(history.tree)
            append(store, history.fill(2))
        return store, history

    def test_the_newest_stay_with_the_logs_they_need(self, data: Path) -> None:
        store, history = self.stored(data)
        store.purge(2)
        assert names(data, "snapshot") == ["snapshot.2e", "snapshot.3a"]
        assert names(data, "log") == ["log.23", "log.2f", "log.3b"]
        (data / "version-2" / "snapshot.3a").write_bytes(b"broken")
        kill(store)
        assert seen(recover(data).tree) == seen(history.tree)

    def test_a_broken_one_does_not_count(self, data: Path) -> None:
        store, history = self.stored(data)
        (data / "version-2" / "snapshot.3a").write_bytes(b"broken")
        store.purge(1)
        assert names(data, "snapshot") == ["snapshot.2e", "snapshot.3a"]
        kill(store)
        assert seen(recover(data).tree) == seen(history.tree)

    def test_more_than_there_are(self, data: Path) -> None:
        store, _ = self.stored(data)
        assert store.purge(100) == []
        store.close()

    def test_it_may_run_beside_everything_else(self, data: Path) -> None:
        store, history = self.stored(data)
        stop = threading.Event()

        def purge() -> None:
            while not stop.is_set():
                store.purge(1)

        thread = threading.Thread(target=purge)
        thread.start()
        for _ in range(10):
            append(store, history.fill(5))
            store.log.roll()
            store.save_snapshot(history.tree)
        stop.set()
        thread.join()
        kill(store)
        assert seen(recover(data).tree) == seen(history.tree)
