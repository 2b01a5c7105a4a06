from __future__ import annotations

from pathlib import Path

import pytest

from ottla.base.errors import CorruptionError
from ottla.keeper.store.epochs import ACCEPTED_EPOCH, CURRENT_EPOCH, read_epoch, settle_epochs, write_epoch


def test_an_epoch_is_written_as_zookeeper_does(tmp_path: Path) -> None:
    write_epoch(tmp_path, CURRENT_EPOCH, 42)
    assert (tmp_path / "currentEpoch").read_bytes() == b"42"
    assert read_epoch(tmp_path, CURRENT_EPOCH) == 42
    write_epoch(tmp_path, CURRENT_EPOCH, 7)
    assert read_epoch(tmp_path, CURRENT_EPOCH) == 7
    assert [path.name for path in tmp_path.iterdir()] == ["currentEpoch"]


def test_no_file_is_no_epoch(tmp_path: Path) -> None:
    assert read_epoch(tmp_path, ACCEPTED_EPOCH) is None


@pytest.mark.parametrize("text", [b"3\n", b" 3 ", b"0", b"2147483647"])
def test_what_counts_as_an_epoch(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "acceptedEpoch").write_bytes(text)
    assert read_epoch(tmp_path, ACCEPTED_EPOCH) == int(text)


@pytest.mark.parametrize(
    "text", [b"", b"x", b"-1", b"1.5", b"0x2", b"\0\0", b"1" * 11, b"1" * 5000, b"\xd9\xa3", b"1 2"]
)
def test_anything_else_is_refused_by_name(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "acceptedEpoch").write_bytes(text)
    with pytest.raises(CorruptionError, match=r"acceptedEpoch: holds .* not an epoch"):
        read_epoch(tmp_path, ACCEPTED_EPOCH)


@pytest.mark.parametrize(
    ("accepted", "current", "zxid", "expected"),
    [
        (None, None, 0, (0, 0)),
        (None, None, 0x3_0000_0007, (3, 3)),  # the files came later than the data, as in old ZooKeepers
        (3, 3, 0x3_0000_0007, (3, 3)),
        (4, 3, 0x3_0000_0007, (4, 3)),
        (4, 4, 0x3_0000_0007, (4, 4)),  # nothing was written in epoch 4
        (4, 3, 0x4_0000_0007, (4, 4)),  # a crash before currentEpoch was written
        (4, None, 0x3_0000_0007, (4, 3)),
        (None, 3, 0x3_0000_0007, (3, 3)),
    ],
)
def test_settled(
    tmp_path: Path, accepted: int | None, current: int | None, zxid: int, expected: tuple[int, int]
) -> None:
    for name, epoch in ((ACCEPTED_EPOCH, accepted), (CURRENT_EPOCH, current)):
        if epoch is not None:
            write_epoch(tmp_path, name, epoch)
    assert settle_epochs(tmp_path, zxid) == expected
    assert (read_epoch(tmp_path, ACCEPTED_EPOCH), read_epoch(tmp_path, CURRENT_EPOCH)) == expected


@pytest.mark.parametrize(
    ("accepted", "current", "zxid"), [(3, 4, 0x3_0000_0007), (3, 3, 0x4_0000_0001), (None, 5, 0x4_0000_0001)]
)
def test_what_does_not_go_together_is_refused_untouched(
    tmp_path: Path, accepted: int | None, current: int, zxid: int
) -> None:
    if accepted is not None:
        write_epoch(tmp_path, ACCEPTED_EPOCH, accepted)
    write_epoch(tmp_path, CURRENT_EPOCH, current)
    with pytest.raises(CorruptionError, match="do not go together"):
        settle_epochs(tmp_path, zxid)
    assert (read_epoch(tmp_path, ACCEPTED_EPOCH), read_epoch(tmp_path, CURRENT_EPOCH)) == (accepted, current)
