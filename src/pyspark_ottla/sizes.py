"""What a record takes on disk, about: told by the first response from where a range begins."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.scan.cluster import Cluster, TopicPartition
from ottla.scan.decoding import next_offset
from ottla.scan.fetching import Fetching, Range, fetch
from pyspark_ottla.options import ReadOptions

if TYPE_CHECKING:
    from ottla.scan.offline import StoppedCluster

SAMPLE_BYTES = 64 << 10


def record_bytes(
    cluster: Cluster | StoppedCluster, ranges: Iterable[Range], options: ReadOptions
) -> dict[TopicPartition, float]:
    """Bytes for each offset, by partition."""
    how = Fetching(options.read_committed, SAMPLE_BYTES, fail_on_data_loss=False)
    found = {}
    for one in ranges:
        if not len(one):
            continue
        first = Range(one.place, one.start, one.start + 1)
        runs = fetch(cluster, first, how) if isinstance(cluster, Cluster) else cluster.files.runs(first)
        run = next(runs, None)
        if run is not None:
            found[one.place] = (run.end - run.start) / max(next_offset(run) - one.start, 1)
    return found
