"""Values to typed columns.

A format knows its columns and decodes an array of values into those of them that are wanted. Malformed values are marked,
and have null in every typed column; whoever asked decides what becomes of them. A value that is null (a tombstone) is not
malformed: it is null in every column.

    json        pyarrow's reader over the joined values; types given, or inferred from samples (``inference``)
    csv         likewise
    access      the common and combined log formats of web servers
    syslog      RFC 5424 and RFC 3164
    avro, protobuf, thrift      with a schema file
    text, binary                the value as it is
"""

from ottla.scan.formats.base import Decoding, Format, Parsed

__all__ = ["Decoding", "Format", "Parsed"]
