"""What can be wrong with records, by Kafka's names for it.

Error
├── LaboriousError                    no fault of the records: too much work to be done while others wait
└── RecordsError                      ``error`` is the name of the Kafka error a producer is answered with
    ├── CorruptMessageError           CORRUPT_MESSAGE: a checksum or a header that cannot be; sent again, it may be right
    ├── InvalidRecordError            INVALID_RECORD: well transported, but against the rules; ``record_errors`` says which
    ├── InvalidTimestampError         INVALID_TIMESTAMP: likewise, by its time
    ├── MessageTooLargeError          MESSAGE_TOO_LARGE: as sent, or once unpacked
    └── UnsupportedCompressionTypeError   UNSUPPORTED_COMPRESSION_TYPE
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from ottla.base.errors import Error


class RecordError(NamedTuple):
    """Which record of a batch was refused, and why: goes back to the producer (KIP-467)."""

    batch_index: int
    message: str


class LaboriousError(Error):
    """Records that take long to judge. Whoever must not keep others waiting lets ``vet`` do it in another thread."""


class RecordsError(Error):
    """Records that cannot be appended."""

    error: ClassVar[str]

    def __init__(self, message: str, record_errors: tuple[RecordError, ...] = ()) -> None:
        super().__init__(message)
        self.record_errors = record_errors


class CorruptMessageError(RecordsError):
    error = "CORRUPT_MESSAGE"


class InvalidRecordError(RecordsError):
    error = "INVALID_RECORD"


class InvalidTimestampError(RecordsError):
    error = "INVALID_TIMESTAMP"


class MessageTooLargeError(RecordsError):
    error = "MESSAGE_TOO_LARGE"


class UnsupportedCompressionTypeError(RecordsError):
    error = "UNSUPPORTED_COMPRESSION_TYPE"
