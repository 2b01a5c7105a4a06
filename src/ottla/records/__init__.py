"""Record batches as bytes: read, checked, given their offsets, packed and unpacked. Nothing here touches a file.

batch       the header: layout, frames in a run of batches, checksum
walk        every record's lengths and bounds in one compiled pass
validate    what a producer sent, by Kafka's rules, made ready for the log
codecs      gzip, snappy, lz4, zstd in bounded memory
record      records as values, for whoever reads or builds them
control     the marks that end transactions
legacy      formats before magic 2
"""

from ottla.records.batch import BatchHeader, TimestampType, check_batch, frames
from ottla.records.codecs import Codec
from ottla.records.control import ControlType, EndTransactionMarker, build_marker
from ottla.records.errors import RecordsError
from ottla.records.record import Record, build_batch, read_batch
from ottla.records.validate import AppendOrigin, Rules, validate

__all__ = [
    "AppendOrigin",
    "BatchHeader",
    "Codec",
    "ControlType",
    "EndTransactionMarker",
    "Record",
    "RecordsError",
    "Rules",
    "TimestampType",
    "build_batch",
    "build_marker",
    "check_batch",
    "frames",
    "read_batch",
    "validate",
]
