"""What can go wrong with a log, by Kafka's names for it.

Error
├── CorruptionError                        ottla.base: bytes on disk that no crash explains
└── LogError                               ``error`` is the name of the Kafka error a client is answered with
    ├── StorageError                       KAFKA_STORAGE_ERROR: the directory is offline from here on
    ├── OffsetOutOfRangeError              OFFSET_OUT_OF_RANGE
    ├── RecordListTooLargeError            RECORD_LIST_TOO_LARGE
    ├── OutOfOrderOffsetsError             what a leader sent does not continue this log
    ├── OutOfOrderSequenceError            OUT_OF_ORDER_SEQUENCE_NUMBER
    ├── InvalidProducerEpochError          INVALID_PRODUCER_EPOCH
    ├── InvalidTxnStateError               INVALID_TXN_STATE
    └── TransactionCoordinatorFencedError  TRANSACTION_COORDINATOR_FENCED
"""

from __future__ import annotations

from typing import ClassVar

from ottla.base.errors import Error


class LogError(Error):
    """A request that a log cannot do."""

    error: ClassVar[str]


class StorageError(LogError):
    error = "KAFKA_STORAGE_ERROR"


class OffsetOutOfRangeError(LogError):
    error = "OFFSET_OUT_OF_RANGE"


class RecordListTooLargeError(LogError):
    error = "RECORD_LIST_TOO_LARGE"


class OutOfOrderOffsetsError(LogError):
    error = "UNKNOWN_SERVER_ERROR"  # followers only: no client ever sees it


class OutOfOrderSequenceError(LogError):
    error = "OUT_OF_ORDER_SEQUENCE_NUMBER"


class InvalidProducerEpochError(LogError):
    error = "INVALID_PRODUCER_EPOCH"


class InvalidTxnStateError(LogError):
    error = "INVALID_TXN_STATE"


class TransactionCoordinatorFencedError(LogError):
    error = "TRANSACTION_COORDINATOR_FENCED"
