"""What can go wrong while a log is read in bulk.

Error
└── ScanError
    ├── UnreachableError        no broker answers, or none answers as it should
    ├── UnknownTopicError       there is no such topic or partition
    ├── DataLossError           records that were to be read are not there any more
    └── OptionError             an option that cannot be; the message names it and what would do
"""

from __future__ import annotations

from ottla.base.errors import Error


class ScanError(Error):
    """Reading cannot go on."""


class UnreachableError(ScanError):
    """Raised only after everything that may help was tried again until the time was up."""


class UnknownTopicError(ScanError):
    """A topic or partition that the cluster does not know."""


class DataLossError(ScanError):
    """Records that were planned to be read are gone: by retention, by deletion, or because the topic was made anew."""


class OptionError(ScanError):
    """An option that cannot be."""
