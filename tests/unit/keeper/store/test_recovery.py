"""What a server makes of its files after a crash, after damage, and after both."""

from __future__ import annotations

import gzip
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.base.errors import CorruptionError
from ottla.keeper.proto.txns import Entry, SetDataTxn, decode_txn, encode_txn
from ottla.keeper.store import DataDir, Recovered
from ottla.keeper.store.entries import LOG_HEADER, encode_entries
from ottla.keeper.store.recovery import Recent
from ottla.keeper.store.snapshot import is_whole
from ottla.keeper.store.synced import SYNCED_NAME
from tests.unit.keeper.store.faults import kill
from tests.unit.keeper.store.histories import History, rich_history, seen
from tests.values import replaced


def recover(directory: Path) -> Recovered:
    store = DataDir(directory)
    try:
        return store.recover()
    finally:
        store.close()


def write(directory: Path, batches: list[list[Entry]], *, snapshot_after: int = -1, crash: bool = False) -> None:
    """Each batch into a file of its own."""
    store = DataDir(directory, pre_alloc_size=8)
    recovered = store.recover()
    store.write_accepted_epoch(1)  # as before any transaction of that epoch
    for number, batch in enumerate(batches):
        recovered.log.append(batch)
        recovered.log.sync()
        for entry in batch:
            recovered.tree.apply(decode_txn(entry.raw))
        if number == snapshot_after:
            store.save_snapshot(recovered.tree)
        if number < len(batches) - 1:
            recovered.log.roll()
    kill(store) if crash else store.close()


def tree_after(entries: list[Entry], count: int) -> dict[str, object]:
    history = History()
    for entry in entries[:count]:
        history.tree.apply(decode_txn(entry.raw))
    return seen(history.tree)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def version_2(data: Path) -> Path:
    return data / "version-2"


@pytest.fixture
def entries() -> list[Entry]:
    history = rich_history()
    history.fill(10)
    return history.entries


def forget_mark(version_2: Path) -> None:
    """As if ZooKeeper had written the directory."""
    (version_2 / SYNCED_NAME).unlink()


def unpadded(log: Path) -> bytes:
    return log.read_bytes().rstrip(b"\0")


def lose_the_end(log: Path) -> None:
    log.write_bytes(unpadded(log)[:-5])


def lose_half_to_zeros(log: Path) -> None:
    written = unpadded(log)
    log.write_bytes(written[: len(written) // 2] + bytes(9000))


def lose_all_but_the_header(log: Path) -> None:
    log.write_bytes(LOG_HEADER)


def pack(snapshot: Path) -> Path:
    """As a ZooKeeper with ``snapshot.compression.method=gz`` would have written it."""
    packed = snapshot.with_name(f"{snapshot.name}.gz")
    packed.write_bytes(gzip.compress(snapshot.read_bytes()))
    snapshot.unlink()
    return packed


class TestSyncedAndGone:
    """The sync mark never leads, so a log that ends before it has lost what was acknowledged."""

    LOSSES = (lose_the_end, lose_half_to_zeros, lose_all_but_the_header, Path.unlink)

    @pytest.mark.parametrize("crash", [False, True], ids=["stopped", "killed"])
    @pytest.mark.parametrize("lose", LOSSES)
    def test_a_log_that_ends_before_what_was_synced_is_refused(
        self, data: Path, version_2: Path, entries: list[Entry], lose: Callable[[Path], None], crash: bool
    ) -> None:
        write(data, [entries[:9], entries[9:]], crash=crash)
        lose(version_2 / f"log.{entries[9].zxid:x}")
        with pytest.raises(CorruptionError, match=r"acknowledged transactions are gone.*To start with what is left"):
            recover(data)
        forget_mark(version_2)
        assert recover(data).last_zxid in [entry.zxid for entry in entries[8:]]

    @pytest.mark.parametrize("lose", LOSSES)
    def test_not_where_the_snapshot_holds_it(
        self, data: Path, version_2: Path, entries: list[Entry], lose: Callable[[Path], None]
    ) -> None:
        write(data, [entries], snapshot_after=0)
        lose(version_2 / "log.1")
        assert seen(recover(data).tree) == tree_after(entries, len(entries))

    def test_not_behind_files_of_somebody_else(self, data: Path, version_2: Path, entries: list[Entry]) -> None:
        """A ZooKeeper that ran here may have shortened the log, and have gone on."""
        write(data, [entries[:9], entries[9:]])
        (version_2 / f"log.{entries[9].zxid:x}").unlink()
        (version_2 / f"log.{entries[-1].zxid:x}").write_bytes(LOG_HEADER)
        assert recover(data).last_zxid == entries[8].zxid
        assert recover(data).last_zxid == entries[8].zxid

    @pytest.mark.parametrize("kept", [0, 5, 9, 12])
    def test_what_was_truncated_on_purpose_is_not_missed(self, data: Path, entries: list[Entry], kept: int) -> None:
        write(data, [entries[:9], entries[9:]])
        store = DataDir(data)
        store.recover()
        zxid = entries[kept - 1].zxid if kept else 0
        assert store.truncate_to(zxid)[0] == zxid
        kill(store)
        assert recover(data).last_zxid == zxid


class TestWarnings:
    """Whatever recovery takes away is told of, with the place and the last transaction that is left."""

    def test_a_cut(self, data: Path, version_2: Path, entries: list[Entry], caplog: pytest.LogCaptureFixture) -> None:
        write(data, [entries])
        forget_mark(version_2)
        log = version_2 / "log.1"
        lose_the_end(log)
        recover(data)
        last = entries[-2].zxid
        size = log.stat().st_size
        told = f"{log}: offset {size}: cutting off what follows 0x{last:x}: the file ends inside an entry"
        assert told in caplog.messages

    def test_a_deletion(
        self, data: Path, version_2: Path, entries: list[Entry], caplog: pytest.LogCaptureFixture
    ) -> None:
        write(data, [entries])
        last = entries[-1].zxid
        log = version_2 / f"log.{last + 1:x}"
        log.write_bytes(b"rubbish")
        recover(data)
        assert f"{log}: deleting it, since nothing in it continues 0x{last:x}" in caplog.messages

    def test_padding_is_no_news(self, data: Path, entries: list[Entry], caplog: pytest.LogCaptureFixture) -> None:
        write(data, [entries], crash=True)
        recover(data)
        assert caplog.messages == []


class TestTornTails:
    def test_cut_at_every_byte_of_the_last_two_entries(
        self, data: Path, version_2: Path, tmp_path: Path, entries: list[Entry]
    ) -> None:
        write(data, [entries[:9], entries[9:]])
        forget_mark(version_2)
        name = f"log.{entries[9].zxid:x}"
        whole = (version_2 / name).read_bytes()
        last = len(encode_entries(entries[-1:]))
        both = len(encode_entries(entries[-2:]))
        states = {count: tree_after(entries, count) for count in range(len(entries) - 2, len(entries) + 1)}
        for missing in range(both + 1):
            copy = tmp_path / "copy"
            shutil.copytree(data, copy)
            (copy / "version-2" / name).write_bytes(whole[: len(whole) - missing])
            lost = 0 if missing == 0 else 1 if missing <= last else 2
            recovered = recover(copy)
            assert seen(recovered.tree) == states[len(entries) - lost]
            assert recovered.last_zxid == entries[len(entries) - lost - 1].zxid
            assert recovered.digest_mismatches == 0
            size = (copy / "version-2" / name).stat().st_size
            assert size == len(whole) - (0, last, both)[lost]
            shutil.rmtree(copy)

    @pytest.mark.parametrize(
        "tail", [bytes(1), bytes(12), bytes(100_000), b"x", b"\xff" * 500, bytes(40) + b"\xff" * 40 + bytes(4000)]
    )
    def test_padding_and_rubbish_are_cut_off(
        self, data: Path, version_2: Path, entries: list[Entry], tail: bytes
    ) -> None:
        write(data, [entries])
        file = version_2 / "log.1"
        whole = file.read_bytes()
        file.write_bytes(whole + tail)
        recovered = recover(data)
        assert seen(recovered.tree) == tree_after(entries, len(entries))
        assert file.read_bytes() == whole

    @pytest.mark.parametrize("zeroed", [1, 10, 60])
    def test_a_last_entry_that_lost_its_end_goes(
        self, data: Path, version_2: Path, entries: list[Entry], zeroed: int
    ) -> None:
        write(data, [entries], crash=True)
        file = version_2 / "log.1"
        end = len(LOG_HEADER) + len(encode_entries(entries))
        content = bytearray(file.read_bytes())
        assert len(content) > end  # killed, so the padding is there
        forget_mark(version_2)
        content[end - zeroed : end] = bytes(zeroed)
        file.write_bytes(content)
        assert seen(recover(data).tree) == tree_after(entries, len(entries) - 1)

    @pytest.mark.parametrize("content", [b"", LOG_HEADER[:7], LOG_HEADER, LOG_HEADER + bytes(5000), bytes(4096)])
    def test_a_last_file_without_an_entry_goes(
        self, data: Path, version_2: Path, entries: list[Entry], content: bytes
    ) -> None:
        write(data, [entries])
        (version_2 / f"log.{entries[-1].zxid + 1:x}").write_bytes(content)
        recovered = recover(data)
        assert seen(recovered.tree) == tree_after(entries, len(entries))
        assert [path.name for path in version_2.glob("log.*")] == ["log.1"]

    def test_a_torn_tail_behind_which_the_next_file_goes_on_is_none(
        self, data: Path, version_2: Path, entries: list[Entry]
    ) -> None:
        """ZooKeeper never cuts: it starts a new file behind the torn entry of the old one."""
        write(data, [entries[:10], entries[10:]])
        forget_mark(version_2)
        with (version_2 / "log.1").open("ab") as file:
            file.write(encode_entries(entries[10:11])[:-4])
        assert seen(recover(data).tree) == tree_after(entries, len(entries))

    def test_after_a_cut_the_log_goes_on(self, data: Path, version_2: Path, entries: list[Entry]) -> None:
        write(data, [entries[:20]])
        file = version_2 / "log.1"
        file.write_bytes(file.read_bytes()[:-3])
        forget_mark(version_2)
        write(data, [entries[19:]])
        assert seen(recover(data).tree) == tree_after(entries, len(entries))


class TestDamage:
    @pytest.mark.parametrize("marked", [True, False], ids=["ours", "ZooKeeper's"])
    @pytest.mark.parametrize("crash", [True, False], ids=["killed", "closed"])
    def test_a_flipped_bit_anywhere_but_in_the_last_entry_refuses(
        self, data: Path, version_2: Path, tmp_path: Path, entries: list[Entry], marked: bool, crash: bool
    ) -> None:
        write(data, [entries[:10], entries[10:]], crash=crash)
        if not marked:
            forget_mark(version_2)
        for name, batch in (
            (version_2 / "log.1", entries[:10]),
            (version_2 / f"log.{entries[10].zxid:x}", entries[10:-1]),
        ):
            whole = name.read_bytes()
            end = len(LOG_HEADER) + len(encode_entries(batch))
            for at in range(16, end, 7):
                damaged = bytearray(whole)
                damaged[at] ^= 0x20
                name.write_bytes(damaged)
                with pytest.raises(
                    CorruptionError, match=rf"{name}: offset \d+: .*last good transaction is 0x.*Restore"
                ):
                    recover(data)
                assert name.read_bytes() == damaged
            name.write_bytes(whole)
        assert seen(recover(data).tree) == tree_after(entries, len(entries))

    def test_so_does_a_sector_of_zeros(self, data: Path, version_2: Path, entries: list[Entry]) -> None:
        write(data, [entries], crash=True)
        file = version_2 / "log.1"
        content = bytearray(file.read_bytes())
        content[512:1024] = bytes(512)
        file.write_bytes(content)
        with pytest.raises(CorruptionError, match="yet a whole one follows"):
            recover(data)

    def test_and_a_missing_file(self, data: Path, version_2: Path, entries: list[Entry]) -> None:
        write(data, [entries[:10], entries[10:20], entries[20:]])
        (version_2 / f"log.{entries[10].zxid:x}").unlink()
        with pytest.raises(
            CorruptionError, match=rf"log\.{entries[20].zxid:x}: offset 16: .*missing.*0x{entries[9].zxid:x}"
        ):
            recover(data)

    def test_and_a_missing_first_file(self, data: Path, version_2: Path, entries: list[Entry]) -> None:
        write(data, [entries[:10], entries[10:]])
        (version_2 / "log.1").unlink()
        with pytest.raises(CorruptionError, match="missing"):
            recover(data)

    def test_and_a_hole_inside_a_file(self, data: Path, version_2: Path, entries: list[Entry]) -> None:
        write(data, [entries])
        (version_2 / "log.1").write_bytes(LOG_HEADER + encode_entries(entries[:8]) + encode_entries(entries[9:]))
        with pytest.raises(CorruptionError, match=rf"0x{entries[9].zxid:x} comes next"):
            recover(data)

    def test_and_an_epoch_that_does_not_begin_at_one(self, data: Path, version_2: Path) -> None:
        history = History()
        first = history.fill(4)
        history.next_epoch()
        second = history.fill(4)
        write(data, [history.entries])
        (version_2 / "log.1").write_bytes(LOG_HEADER + encode_entries(first) + encode_entries(second[1:]))
        with pytest.raises(CorruptionError, match="0x100000002 comes next"):
            recover(data)

    def test_and_entries_that_go_back(self, data: Path, version_2: Path, entries: list[Entry]) -> None:
        write(data, [entries[:6], entries[6:]], snapshot_after=1)
        last = version_2 / f"log.{entries[6].zxid:x}"
        last.write_bytes(last.read_bytes() + encode_entries(entries[8:9]))
        with pytest.raises(CorruptionError, match="comes next"):
            recover(data)

    def test_and_a_file_under_a_wrong_name(self, data: Path, version_2: Path, entries: list[Entry]) -> None:
        write(data, [entries[:10], entries[10:]])
        (version_2 / f"log.{entries[10].zxid:x}").rename(version_2 / f"log.{entries[12].zxid:x}")
        with pytest.raises(CorruptionError, match="the file begins with"):
            recover(data)

    def test_and_a_transaction_nobody_knows(self, data: Path, version_2: Path, entries: list[Entry]) -> None:
        strange = Entry(entries[9].zxid, entries[9].raw[:28] + b"\0\0\x03\xe7")
        write(data, [[*entries[:9]]])
        with (version_2 / "log.1").open("ab") as file:
            file.write(encode_entries([strange]))
        with pytest.raises(CorruptionError, match="cannot be read: a transaction of unknown type 999"):
            recover(data)

    def test_damage_before_the_snapshot_does_not_matter(
        self, data: Path, version_2: Path, entries: list[Entry]
    ) -> None:
        write(data, [entries[:10], entries[10:20], entries[20:]], snapshot_after=1)
        (version_2 / "log.1").write_bytes(b"gone")
        assert seen(recover(data).tree) == tree_after(entries, len(entries))


class TestUnsynced:
    """Entries behind the sync mark, of which a power cut kept later pages and lost earlier ones."""

    def start(self, data: Path, entries: list[Entry]) -> DataDir:
        store = DataDir(data)
        log = store.recover().log
        store.write_accepted_epoch(1)
        log.append(entries[:10])
        log.sync()
        return store

    def test_a_lost_page_ends_the_log(
        self, data: Path, version_2: Path, entries: list[Entry], caplog: pytest.LogCaptureFixture
    ) -> None:
        store = self.start(data, entries)
        store.log.append(entries[10:])
        kill(store)
        file = version_2 / "log.1"
        content = bytearray(file.read_bytes())
        start = len(LOG_HEADER) + len(encode_entries(entries[:11]))
        content[start : start + 30] = bytes(30)
        file.write_bytes(content)
        assert seen(recover(data).tree) == tree_after(entries, 11)
        assert "never synced" in caplog.text
        assert seen(recover(data).tree) == tree_after(entries, 11)

    def test_so_does_a_lost_end_of_the_file_before(self, data: Path, version_2: Path, entries: list[Entry]) -> None:
        store = self.start(data, entries)
        store.log.append(entries[10:20])
        store.log.roll()
        store.log.append(entries[20:])
        # The sync is under way: the new file is announced, nothing is on disk for sure.
        store.log._set_mark(store.log._marked._replace(newest_zxid=entries[20].zxid), durable=True)
        kill(store)
        file = version_2 / "log.1"
        file.write_bytes(file.read_bytes()[: len(LOG_HEADER) + len(encode_entries(entries[:14]))])
        recovered = recover(data)
        assert seen(recovered.tree) == tree_after(entries, 14)
        assert [path.name for path in version_2.glob("log.*")] == ["log.1"]

    def test_but_not_in_a_file_that_somebody_else_wrote(
        self, data: Path, version_2: Path, entries: list[Entry]
    ) -> None:
        store = self.start(data, entries)
        kill(store)
        other = bytearray(LOG_HEADER + encode_entries(entries[10:]))
        other[20:40] = bytes(20)
        (version_2 / f"log.{entries[10].zxid:x}").write_bytes(other)
        with pytest.raises(CorruptionError, match="yet a whole one follows"):
            recover(data)


class TestSnapshots:
    @pytest.mark.parametrize("damage", ["empty", "cut", "flipped"])
    def test_a_broken_newest_falls_back(
        self, data: Path, version_2: Path, entries: list[Entry], damage: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        write(data, [entries[:10], entries[10:]], snapshot_after=0)
        file = version_2 / f"snapshot.{entries[9].zxid:x}"
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 4
        file.write_bytes({"empty": b"", "cut": bytes(content[:-60]), "flipped": bytes(content)}[damage])
        recovered = recover(data)
        assert seen(recovered.tree) == tree_after(entries, len(entries))
        assert recovered.snapshot_zxid == 0
        assert "passing over a broken snapshot" in caplog.text
        assert file.name in caplog.text

    def test_all_broken_refuses(self, data: Path, version_2: Path, entries: list[Entry]) -> None:
        write(data, [entries])
        (version_2 / "snapshot.0").write_bytes(b"")
        with pytest.raises(CorruptionError, match=r"no usable snapshot.*snapshot\.trust\.empty"):
            recover(data)

    def test_none_refuses(self, data: Path, version_2: Path, entries: list[Entry]) -> None:
        write(data, [entries])
        (version_2 / "snapshot.0").unlink()
        with pytest.raises(CorruptionError, match="no usable snapshot"):
            recover(data)
        store = DataDir(data, trust_empty_snapshot=True)
        assert seen(store.recover().tree) == tree_after(entries, len(entries))
        store.close()
        assert seen(recover(data).tree) == tree_after(entries, len(entries))  # once is enough

    def test_none_with_epochs_refuses(self, data: Path, version_2: Path) -> None:
        write(data, [])
        store = DataDir(data)
        store.recover()
        store.write_accepted_epoch(3)
        store.close()
        (version_2 / "snapshot.0").unlink()
        with pytest.raises(CorruptionError, match="this server has had data"):
            recover(data)

    def test_a_fallback_across_purged_logs_refuses(self, data: Path, version_2: Path, entries: list[Entry]) -> None:
        write(data, [entries[:10], entries[10:20], entries[20:]], snapshot_after=1)
        (version_2 / "log.1").unlink()
        (version_2 / f"snapshot.{entries[19].zxid:x}").write_bytes(b"")
        with pytest.raises(CorruptionError, match="missing"):
            recover(data)

    def test_one_packed_by_gzip_is_read(self, data: Path, version_2: Path, entries: list[Entry]) -> None:
        write(data, [entries[:10], entries[10:]], snapshot_after=0)
        snapshot = version_2 / f"snapshot.{entries[9].zxid:x}"
        pack(snapshot)
        (version_2 / "log.1").unlink()
        recovered = recover(data)
        assert recovered.snapshot_zxid == entries[9].zxid
        assert seen(recovered.tree) == tree_after(entries, len(entries))

    @pytest.mark.parametrize("damage", [b"", b"no gzip", bytes(100)])
    @pytest.mark.parametrize("cut", [0, 30, 200])
    def test_one_packed_by_gzip_and_damaged_is_passed_over(
        self, data: Path, version_2: Path, entries: list[Entry], damage: bytes, cut: int
    ) -> None:
        write(data, [entries[:10], entries[10:]], snapshot_after=0)
        packed = pack(version_2 / f"snapshot.{entries[9].zxid:x}")
        packed.write_bytes(packed.read_bytes()[:cut] + damage)
        assert not is_whole(packed)
        recovered = recover(data)
        assert recovered.snapshot_zxid == 0
        assert seen(recovered.tree) == tree_after(entries, len(entries))

    def test_a_purge_counts_one_packed_by_gzip(self, data: Path, version_2: Path, entries: list[Entry]) -> None:
        write(data, [entries[:10], entries[10:]], snapshot_after=0)
        packed = pack(version_2 / f"snapshot.{entries[9].zxid:x}")
        store = DataDir(data)
        store.recover()
        assert sorted(path.name for path in store.purge(1)) == ["snapshot.0"]
        store.close()
        assert packed.exists()

    def test_one_compressed_otherwise_is_refused_by_name(
        self, data: Path, version_2: Path, entries: list[Entry]
    ) -> None:
        write(data, [entries])
        (version_2 / "snapshot.5.snappy").write_bytes(b"compressed")
        with pytest.raises(CorruptionError, match=r"snapshot\.5\.snappy: .* by snappy .*snapshot\.compression\.method"):
            recover(data)

    def test_one_that_the_log_does_not_reach_is_told(
        self, data: Path, version_2: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        history = History()
        store = DataDir(data)
        log = store.recover().log
        log.append(history.fill(10))
        with store.begin_snapshot(history.tree) as writing:
            writing.write(next(writing.chunks))
            log.append(history.fill(3))
            for chunk in writing.chunks:
                writing.write(chunk)
            writing.commit()
        store.close()
        assert recover(data).snapshot_zxid == 10
        assert "part of the log is gone" not in caplog.text
        forget_mark(version_2)
        file = version_2 / "log.1"
        file.write_bytes(file.read_bytes()[:-5])
        recover(data)
        assert "shows effects up to 0xd" in caplog.text


class TestDigests:
    def test_a_tree_that_differs_is_counted_and_told_once(self, data: Path, caplog: pytest.LogCaptureFixture) -> None:
        history = History()
        history.fill(5)
        wrong = decode_txn(history.add(SetDataTxn("/fill", b"true", 9)).raw)
        body = SetDataTxn("/fill", b"false", 9)
        history.entries[-1] = Entry(wrong.zxid, encode_txn(replaced(wrong, body=body)))
        history.create("/x")
        history.create("/y")
        write(data, [history.entries])
        with caplog.at_level(logging.ERROR):
            assert recover(data).digest_mismatches == 3
        assert caplog.text.count("differs from the leader's at 0x6") == 1

    def test_digests_of_another_version_are_not_compared(self, data: Path) -> None:
        history = History()
        history.fill(5)
        entries = [
            Entry(e.zxid, encode_txn(replaced(decode_txn(e.raw), digest=1, digest_version=1))) for e in history.entries
        ]
        write(data, [entries])
        assert recover(data).digest_mismatches == 0

    def test_a_snapshot_that_says_otherwise_is_counted(self, data: Path, entries: list[Entry]) -> None:
        write(data, [entries])
        store = DataDir(data)
        tree = store.recover().tree
        tree._digest += 1
        store.save_snapshot(tree)
        store.close()
        assert recover(data).digest_mismatches == 1


class TestRecent:
    def test_the_last_entries_are_at_hand(self, data: Path, entries: list[Entry]) -> None:
        write(data, [entries[:5], entries[5:15], entries[15:]], snapshot_after=1)
        recovered = recover(data)
        # The file before the snapshot is read as well, for what lies behind it; its first entry is the base.
        assert recovered.recent == entries[6:]
        assert recovered.recent_base == entries[5].zxid

    def test_within_bounds(self, data: Path, entries: list[Entry]) -> None:
        write(data, [entries])
        store = DataDir(data, recent_count=4)
        recovered = store.recover()
        store.close()
        assert (recovered.recent, recovered.recent_base) == (entries[-4:], entries[-5].zxid)
        store = DataDir(data, recent_bytes=0)
        recovered = store.recover()
        store.close()
        assert (recovered.recent, recovered.recent_base) == ([], entries[-1].zxid)

    def test_never_across_a_gap(self) -> None:
        recent = Recent(20, count_max=100, bytes_max=10_000)
        for zxid in (7, 8, 9, 21, 22):
            recent.append(Entry(zxid, b""))
        assert ([entry.zxid for entry in recent.ending_at(22)], recent.base) == ([21, 22], 20)
        recent = Recent(20, count_max=100, bytes_max=10_000)
        for zxid in (7, 8, 11, 12):
            recent.append(Entry(zxid, b""))
        assert ([entry.zxid for entry in recent.ending_at(12)], recent.base) == ([12], 11)
        assert (recent.ending_at(20), recent.base) == ([], 20)
