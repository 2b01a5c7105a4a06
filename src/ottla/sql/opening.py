"""An engine over whatever holds the records: a cluster or the files of brokers, and beside them the tables of pipelines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ottla.scan import manifest
from ottla.scan.cluster import Cluster
from ottla.scan.errors import OptionError
from ottla.scan.settings import parse_settings
from ottla.sql.engine import Engine, Source, Values
from ottla.sql.sources import ClusterSource


def open_engine(
    settings: Mapping[str, str],
    formats: Mapping[str, Values] | None = None,
    log_dirs: Sequence[str | Path] = (),
    tables: Sequence[str | Path] = (),
    *,
    read_committed: bool = False,
) -> Engine:
    return Engine(open_source(settings, log_dirs, read_committed=read_committed), formats, served(tables))


def open_source(settings: Mapping[str, str], log_dirs: Sequence[str | Path] = (), *, read_committed: bool) -> Source:
    """Where topics are: ``settings`` are those of a Kafka client; with ``log_dirs`` the files of brokers are read instead."""
    if log_dirs:
        # Which a query of a cluster need not wait for.
        from ottla.scan.files import LogFiles
        from ottla.sql.filesource import FilesSource

        return FilesSource(LogFiles(log_dirs), read_committed=read_committed)
    return ClusterSource(Cluster(parse_settings(settings)), read_committed=read_committed)


def served(directories: Sequence[str | Path]) -> dict[str, list[Path]]:
    """The files of each table that pipelines have made in these directories."""
    return {name: paths for path in directories for name, paths in manifest.tables(Path(path)).items()}


def parse_values(text: str) -> Values:
    """``FORMAT,OPTION=VALUE,...``, taken apart."""
    form, *options = text.split(",")
    if not form or not all("=" in option for option in options):
        raise OptionError(f"{text}: give a format, and options behind it as ,NAME=VALUE")
    return Values(form, dict(option.split("=", 1) for option in options))
