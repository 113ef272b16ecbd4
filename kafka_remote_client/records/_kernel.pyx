# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The compiled twin of ``batch.scan_batches``, ``batch.BatchList``, ``aborted.AbortedTransactionFilter``,
``columns.ColumnBuilder``, ``columns.Columns``, ``header_tally.tally_headers`` and of message_slice.py.

Those modules document formats, rules and words. This module does the same work without the interpreter's lock: the walk
over the headers with all its checks, and the pass over the records. The Python functions handle what is rare: old formats,
damaged frames, errors. The kernel checks every size against the remaining bytes before it uses the size, in 64-bit arithmetic.

State that threads share, and what guards it in a free-threaded interpreter (docs/decisions/0013-free-threaded.md).
A critical section costs nothing in other interpreters:

- spare pieces of memory and ``usual_ratio``: a critical section of ``shared``;
- a ``MessageSlice``: a critical section of the slice;
- ``layout`` and the tables of _crc32c.h: written at import, and only read afterwards;
- all other objects belong to one thread at a time, until ``finish`` returns columns that nothing changes any more.
"""

cimport cython

from cpython.buffer cimport PyBUF_READ, PyBUF_WRITE, PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memcmp, memcpy, memset

import cramjam
from confluent_kafka import Message

from kafka_remote_client.records.batch import BatchHeader, read_legacy_header
from kafka_remote_client.records.control import is_abort_marker
from kafka_remote_client.records.faults import BatchFault, fault_error
from kafka_remote_client.records.message_layout import layout_in_use
from kafka_remote_client.records.payload import copy_records

cdef extern from "_crc32c.h" nogil:
    void krc_prepare()
    uint32_t krc_checksum(const uint8_t *data, size_t size, int hardware)
    int krc_hardware

cdef extern from "_memory.h" nogil:
    void *krm_allocate(size_t size)
    void krm_expect(const void *address)
    void krm_copy(uint8_t *to, const uint8_t *source, size_t size)

cdef extern from "Python.h":
    ctypedef struct PyTupleObject:
        PyObject **ob_item

    ctypedef struct PyTypeObject:
        object (*tp_alloc)(PyTypeObject *cls, Py_ssize_t items)

    void Py_XINCREF(PyObject *o)
    void Py_XDECREF(PyObject *o)
    Py_ssize_t Py_REFCNT(object o)
    object PyObject_Call(object callable, object args, PyObject *kwargs)

krc_prepare()

# Fault numbers, as in faults.py; a test compares them.
cdef enum:
    NONE = 0
    BATCH_SIZE = 1
    MAGIC = 2
    BEYOND_SEGMENT = 3
    CRC = 4
    CHAIN = 5
    OUTSIDE_SEGMENT = 6
    LEADER_EPOCH = 7
    RECORD_COUNT = 8
    LAST_OFFSET = 9
    VARINT = 11
    RECORD_SIZE = 12
    OFFSET_DELTA = 13
    KEY_SIZE = 14
    VALUE_SIZE = 15
    HEADERS = 16
    BODY_SIZE = 17
    TRAILING_BYTES = 18
    TOO_LARGE = 20
    CONTROL_RECORD = 21

FAULTS = {
    "NONE": NONE, "BATCH_SIZE": BATCH_SIZE, "MAGIC": MAGIC, "BEYOND_SEGMENT": BEYOND_SEGMENT, "CRC": CRC, "CHAIN": CHAIN,
    "OUTSIDE_SEGMENT": OUTSIDE_SEGMENT, "LEADER_EPOCH": LEADER_EPOCH, "RECORD_COUNT": RECORD_COUNT, "LAST_OFFSET": LAST_OFFSET,
    "VARINT": VARINT, "RECORD_SIZE": RECORD_SIZE, "OFFSET_DELTA": OFFSET_DELTA, "KEY_SIZE": KEY_SIZE, "VALUE_SIZE": VALUE_SIZE,
    "HEADERS": HEADERS, "BODY_SIZE": BODY_SIZE, "TRAILING_BYTES": TRAILING_BYTES,
    "TOO_LARGE": TOO_LARGE, "CONTROL_RECORD": CONTROL_RECORD,
}

cdef enum:
    LOG_OVERHEAD = 12
    UP_TO_MAGIC = 17
    BATCH_OVERHEAD = 61
    MINIMAL_RECORD = 7
    CODEC_MASK = 0x07
    LOG_APPEND_TIME = 0x08
    TRANSACTIONAL = 0x10
    CONTROL = 0x20
    NEEDS_PYTHON = -1  # only the Python functions can read the next batch, and they need the lock
    NEEDS_ROOM = -2  # the list has no room for another batch

cdef struct Batch:
    int64_t position
    int64_t size
    int64_t records_start  # in the memory that columns point into; set by the builder
    int64_t records_stop
    int64_t base_offset
    int64_t last_offset
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t producer_id
    int32_t leader_epoch
    int32_t record_count
    int16_t attributes
    int8_t magic
    int8_t marker  # of a control batch: NOT_READ, ABORTS or ANOTHER; set by the builder
    int8_t taken  # whether the application gets its records; set by the builder

cdef enum:
    NOT_READ = 0
    ABORTS = 1
    ANOTHER = 2

cdef struct Epoch:
    int64_t start_offset
    int64_t epoch

cdef struct Rules:
    int64_t start_offset
    int64_t end_offset
    int64_t max_batch_bytes
    bint allow_offset_gaps
    bint any_epoch
    Epoch *epochs
    int64_t epoch_count


cdef inline uint32_t load32(const uint8_t *at) noexcept nogil:
    return (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3]


cdef inline int64_t load64(const uint8_t *at) noexcept nogil:
    return <int64_t>((<uint64_t>load32(at) << 32) | load32(at + 4))


def crc32c(const uint8_t[::1] data, bint hardware=True):
    """CRC-32C of ``data``; ``hardware=False`` forces the tables. For tests only: the walk over batches computes its own."""
    return krc_checksum(&data[0] if data.shape[0] else NULL, data.shape[0], hardware and krc_hardware)


include "_kernel_memory.pxi"
include "_kernel_batches.pxi"
include "_kernel_aborted.pxi"
include "_kernel_records.pxi"
include "_kernel_messages.pxi"
include "_kernel_columns.pxi"
include "_kernel_builder.pxi"
include "_kernel_slice.pxi"
include "_kernel_tally.pxi"
