"""How fast a log takes and gives batches, in one process without a network. Budgets: ``records/walk.py``.

    python -m bench.log [SECONDS]

Appends are what a leader does with a produce request: checksum, every record walked, offsets assigned, one write into the
page cache, index entries. Each figure is the best of three runs.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from ottla.log import Health, Loading, LogConfig, TopicPartition, load_log
from ottla.records import AppendOrigin, Record, Rules, build_batch, validate
from ottla.records.codecs import Codec
from ottla.records.walk import walk

NOW_MS = 1_700_000_000_000
SIZES = {"1 KB": (10, 100), "16 KB": (150, 102), "64 KB": (600, 102), "1 MB": (1000, 1030)}


def made(records: int, value_bytes: int, codec: Codec = Codec.NONE) -> bytes:
    return build_batch([Record(None, bytes(value_bytes), NOW_MS + i) for i in range(records)], codec=codec)


def rate(work, seconds: float) -> float:
    """Seconds for one call, the best of three runs."""
    best = float("inf")
    for _ in range(3):
        calls, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds / 3:
            for _ in range(20):
                work()
            calls += 20
        best = min(best, (time.perf_counter() - start) / calls)
    return best


def shown(what: str, size: int, each: float) -> None:
    print(f"{what:34} {each * 1e6:9.2f} µs {size / each / 1e6:9,.0f} MB/s {1 / each:10,.0f} /s")


def main() -> None:
    if walk.__class__.__name__ == "function":
        sys.exit("the walk runs uncompiled, so figures mean nothing: make setup compiles it")
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    for name, (records, value_bytes) in SIZES.items():
        batch = made(records, value_bytes)
        shown(f"walk {name}", len(batch), rate(lambda b=batch, n=records: walk(b, 61, len(b), n), seconds))

        def check(batch=batch) -> None:
            validate(batch, Rules(), base_offset=7, leader_epoch=1, now_ms=NOW_MS, origin=AppendOrigin.CLIENT)

        shown(f"validate {name}", len(batch), rate(check, seconds))
        with tempfile.TemporaryDirectory() as folder:
            config = LogConfig(segment_bytes=64 << 20, file_delete_delay_ms=0, retention_bytes=128 << 20)
            loading = Loading(Path(folder), TopicPartition("bench", 0), config, Health(Path(folder)))
            log, _ = load_log(loading, now_ms=NOW_MS, write_checkpoints=lambda: None)

            def append(log=log, batch=batch) -> None:
                log.append_as_leader(batch, leader_epoch=1, now_ms=NOW_MS)
                if len(log.segments) > 3:
                    log.update_high_watermark(log.log_end_offset)
                    log.delete_old_segments(now_ms=NOW_MS)
                    log.delete_marked(now_ms=NOW_MS)

            shown(f"append {name}", len(batch), rate(append, seconds))
            first, last = log.log_start_offset, log.log_end_offset
            offsets = [first + (last - first) * i // 1000 for i in range(1000)]
            turn = iter(range(1 << 62))
            found = log.read(first, 1 << 20)
            assert found.range is not None
            size = found.range.length

            def locate(log=log, offsets=offsets, turn=turn) -> None:
                log.read(offsets[next(turn) % 1000], 1 << 20)

            def read(log=log, offsets=offsets, turn=turn) -> None:
                log.read(offsets[next(turn) % 1000], 1 << 20).range.read()

            def tail(log=log, at=last - records) -> None:
                log.read(at, 1 << 20)

            shown(f"find, anywhere, {name}", size, rate(locate, seconds))
            shown(f"find, last batch, {name}", len(batch), rate(tail, seconds))
            shown(f"find and pread 1 MB, {name}", size, rate(read, seconds))
            log.abandon()
    for codec in Codec:
        batch = made(150, 102, codec)

        def check(batch=batch) -> None:
            validate(batch, Rules(), base_offset=7, leader_epoch=1, now_ms=NOW_MS, origin=AppendOrigin.CLIENT)

        shown(f"validate 16 KB {codec.name.lower()}", len(made(150, 102)), rate(check, seconds))


if __name__ == "__main__":
    main()
