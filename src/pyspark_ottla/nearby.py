"""Whether a worker can read the files of a partition itself.

With ``readMode=files`` it has to, in the directories that ``logDirs`` names or that the leader tells. With ``auto`` it does so in those of
``logDirs``, and where none are given in those of the leader, if they are there and say that they belong to the same cluster: a path
may mean another disk on another machine. With ``network`` it never does. Whoever may read the files may read all records in them.

``readMode=files`` with ``logDirs`` and without brokers is for those that do not run, Ottla's or Apache Kafka's: then files are all there is.

What reads files is loaded by those who do: Spark starts processes for every session, and each would wait for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.base.errors import CorruptionError
from ottla.scan.cluster import Cluster, TopicPartition
from ottla.scan.columns import EVERYTHING, Filter
from ottla.scan.decoding import Decoded
from ottla.scan.errors import ScanError
from ottla.scan.fetching import Fetching, Range
from ottla.scan.reading import read
from pyspark_ottla.options import ReadOptions

if TYPE_CHECKING:
    from ottla.scan.files import LogFiles
    from ottla.scan.offline import StoppedCluster

META_PROPERTIES = "meta.properties"


def connected(options: ReadOptions) -> Cluster | StoppedCluster:
    """Whoever knows which topics and offsets there are."""
    if not options.is_offline:
        return Cluster(options.settings)
    from ottla.scan.files import LogFiles
    from ottla.scan.offline import StoppedCluster

    return StoppedCluster(LogFiles(options.log_dirs))


def read_samples(
    cluster: Cluster | StoppedCluster, wanted: Iterable[Range], names: frozenset[str], how: Fetching
) -> Iterator[Decoded]:
    """A few records, from wherever there are any."""
    if isinstance(cluster, Cluster):
        return read(cluster, wanted, names, how=how)
    from ottla.scan.localreading import read_files

    return read_files(cluster.files, wanted, names, EVERYTHING, read_committed=how.read_committed)


def read_nearest(
    options: ReadOptions, wanted: Range, names: frozenset[str], passing: Filter, how: Fetching
) -> Iterator[Decoded]:
    """In a worker: a range from files where they can be reached, and the rest from its leader."""
    if options.read_mode == "network":
        with Cluster(options.settings) as cluster:
            yield from read(cluster, [wanted], names, passing, how)
        return
    from ottla.scan.files import LogFiles
    from ottla.scan.localreading import read_both, read_files

    if options.is_offline:
        files = _found(map(Path, options.log_dirs), wanted.place) or LogFiles()
        start = wanted.start if options.fail_on_data_loss else max(wanted.start, files.log(wanted.place).start)
        there = Range(wanted.place, start, wanted.end)
        yield from read_files(files, [there], names, passing, read_committed=how.read_committed)
        return
    with Cluster(options.settings) as cluster:
        yield from read_both(reachable_files(options, cluster, wanted.place), cluster, wanted, names, passing, how)


def reachable_files(options: ReadOptions, cluster: Cluster, place: TopicPartition) -> LogFiles | None:
    directories = [Path(path) for path in options.log_dirs] or _told(cluster, place)
    found = _found(directories, place)
    if found is None and options.read_mode == "files":
        raise ScanError(
            f"readMode=files: there are no files of {place} to be read in {_listed(directories)}; logDirs names others"
        )
    return found


def _found(directories: Iterable[Path], place: TopicPartition) -> LogFiles | None:
    from ottla.log.inspect import read_partition
    from ottla.scan.files import LogFiles, PartitionLog

    folders = [directory / str(place) for directory in directories]
    logs = [PartitionLog(read_partition(folder)) for folder in folders if folder.is_dir()]
    return LogFiles.of(max(logs, key=lambda log: log.end)) if logs else None


def _told(cluster: Cluster, place: TopicPartition) -> list[Path]:
    """What the leader says, as far as it is here."""
    cluster_id, directories = cluster.log_directories(place)
    return [path for path in map(Path, directories) if cluster_id is not None and _belongs_to(path, cluster_id)]


def _belongs_to(directory: Path, cluster_id: str) -> bool:
    from ottla.log.checkpoints import read_meta_properties

    try:
        found = read_meta_properties(directory / META_PROPERTIES)
    except (OSError, CorruptionError):
        return False
    return found is not None and found.cluster_id == cluster_id


def _listed(directories: list[Path]) -> str:
    return ", ".join(map(str, directories)) or "any directory that the leader tells of"
