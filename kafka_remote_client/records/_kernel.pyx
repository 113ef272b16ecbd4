# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The compiled twin of ``batch.scan_batches``, ``batch.BatchList``, ``columns.ColumnBuilder`` and ``columns.Columns``.

Formats, rules and words are documented there; this module only does the same without the interpreter's lock: the walk over
the headers with all its checks, and the pass over the records. What is rare (old formats, damaged frames, errors) is left to
the Python functions. Every size is checked against the bytes left before it is used, in 64-bit arithmetic.
"""

from cpython.buffer cimport PyBUF_READ, PyBUF_WRITE, PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

import cramjam
from confluent_kafka import Message

from kafka_remote_client.records.batch import BatchHeader, read_legacy_header
from kafka_remote_client.records.faults import BatchFault, fault_error
from kafka_remote_client.records.payload import copy_records

cdef extern from "_crc32c.h" nogil:
    void krc_prepare()
    uint32_t krc_checksum(const uint8_t *data, size_t size, int hardware)
    int krc_hardware

cdef extern from "Python.h":
    ctypedef struct PyTupleObject:
        PyObject **ob_item

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
    OUT_OF_MEMORY = 99

FAULTS = {
    "NONE": NONE, "BATCH_SIZE": BATCH_SIZE, "MAGIC": MAGIC, "BEYOND_SEGMENT": BEYOND_SEGMENT, "CRC": CRC, "CHAIN": CHAIN,
    "OUTSIDE_SEGMENT": OUTSIDE_SEGMENT, "LEADER_EPOCH": LEADER_EPOCH, "RECORD_COUNT": RECORD_COUNT, "LAST_OFFSET": LAST_OFFSET,
    "VARINT": VARINT, "RECORD_SIZE": RECORD_SIZE, "OFFSET_DELTA": OFFSET_DELTA, "KEY_SIZE": KEY_SIZE, "VALUE_SIZE": VALUE_SIZE,
    "HEADERS": HEADERS, "BODY_SIZE": BODY_SIZE, "TRAILING_BYTES": TRAILING_BYTES,
}

cdef enum:
    LOG_OVERHEAD = 12
    UP_TO_MAGIC = 17
    BATCH_OVERHEAD = 61
    MINIMAL_RECORD = 7
    CODEC_MASK = 0x07
    LOG_APPEND_TIME = 0x08
    CONTROL = 0x20
    NEEDS_PYTHON = -1  # a batch of an old format was met while the lock was released

cdef struct Batch:
    int64_t position
    int64_t size
    int64_t base_offset
    int64_t last_offset
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t producer_id
    int32_t leader_epoch
    int32_t record_count
    int16_t attributes
    int8_t magic

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
    """CRC-32C of ``data``; ``hardware=False`` forces the tables. For tests: the walk over batches does its own."""
    return krc_checksum(&data[0] if data.shape[0] else NULL, data.shape[0], hardware and krc_hardware)


# ---------------------------------------------------------------------------------------------------------------------
# The walk over headers


cdef int check_prefix(int64_t size, int magic, Rules *rules) noexcept nogil:
    cdef int64_t minimal = 14 if magic == 0 else 22 if magic == 1 else BATCH_OVERHEAD - LOG_OVERHEAD
    if not 0 <= magic <= 2:
        return BATCH_SIZE if size < LOG_OVERHEAD + 14 else MAGIC
    if size < LOG_OVERHEAD + minimal:
        return BATCH_SIZE
    return BEYOND_SEGMENT if size > rules.max_batch_bytes else NONE


cdef int read_header(const uint8_t *at, int64_t size, Batch *batch) noexcept nogil:
    cdef int32_t delta = <int32_t>load32(at + 23)
    batch.base_offset = load64(at)
    batch.last_offset = <int64_t>(<uint64_t>batch.base_offset + <uint64_t>(<int64_t>delta))
    batch.leader_epoch = <int32_t>load32(at + 12)
    batch.attributes = <int16_t>((at[21] << 8) | at[22])
    batch.base_timestamp = load64(at + 27)
    batch.max_timestamp = load64(at + 35)
    batch.producer_id = load64(at + 43)
    batch.record_count = <int32_t>load32(at + 57)
    if krc_checksum(at + 21, size - 21, krc_hardware) != load32(at + 17):
        return CRC
    if delta < 0:
        return LAST_OFFSET
    return RECORD_COUNT if batch.record_count < 0 else NONE


cdef int check_place(Batch *batch, int64_t expected, Rules *rules) noexcept nogil:
    cdef int64_t epoch = -1
    cdef int64_t i
    if not rules.start_offset <= batch.base_offset <= batch.last_offset <= rules.end_offset:
        return OUTSIDE_SEGMENT
    if expected >= 0 and (batch.base_offset < expected or (batch.base_offset > expected and not rules.allow_offset_gaps)):
        return CHAIN
    if batch.magic == 2 and not rules.any_epoch:
        for i in range(rules.epoch_count):
            if rules.epochs[i].start_offset > batch.base_offset:
                break
            epoch = rules.epochs[i].epoch
        if epoch != batch.leader_epoch:
            return LEADER_EPOCH
    return NONE


cdef class BatchList:
    """``batch.BatchList`` over an array of C structures."""

    cdef Batch *batches
    cdef int64_t count
    cdef int64_t capacity
    cdef int64_t position
    cdef int64_t expected
    cdef int64_t offset
    cdef readonly object error
    cdef readonly object needed

    def __cinit__(self):
        self.batches = NULL
        self.count = self.capacity = self.position = 0
        self.offset = -1
        self.error = None
        self.needed = 0

    def __dealloc__(self):
        free(self.batches)

    def __len__(self):
        return self.count

    def __getitem__(self, int64_t index):
        if not 0 <= index < self.count:
            raise IndexError(index)
        cdef Batch *b = &self.batches[index]
        return BatchHeader(b.position, b.size, b.base_offset, b.last_offset, b.magic, b.leader_epoch, b.attributes,
                           b.base_timestamp, b.max_timestamp, b.producer_id, b.record_count)

    def __iter__(self):
        for index in range(self.count):
            yield self[index]

    def needs_arena(self):
        """Whether records anywhere have to be decompressed or rewritten."""
        cdef int64_t i
        for i in range(self.count):
            if self.batches[i].attributes & CODEC_MASK or self.batches[i].magic < 2:
                return True
        return False

    def count_below(self, int64_t end_offset):
        """How many batches begin below ``end_offset``."""
        cdef int64_t count = self.count
        while count and self.batches[count - 1].base_offset >= end_offset:
            count -= 1
        return count

    def ordinary_until(self, int64_t index, int64_t stop, int64_t fetch_offset, int64_t filter_from):
        """The first batch of ``[index, stop)`` whose records are not simply taken."""
        cdef Batch *b
        while index < stop:
            b = &self.batches[index]
            if (b.attributes & CONTROL or b.last_offset < fetch_offset
                    or (b.producer_id >= 0 and b.last_offset >= filter_from)):
                break
            index += 1
        return index

    cdef Batch *room(self) noexcept nogil:
        cdef int64_t capacity
        cdef void *grown
        if self.count == self.capacity:
            capacity = self.capacity * 2 if self.capacity else 64
            grown = realloc(self.batches, capacity * sizeof(Batch))
            if grown == NULL:
                return NULL
            self.batches = <Batch *>grown
            self.capacity = capacity
        return &self.batches[self.count]

    cdef int walk(self, const uint8_t *data, int64_t end, Rules *rules) noexcept nogil:
        """Goes on from ``position``; a fault, or NONE at the end, or NEEDS_PYTHON at a batch of an old format."""
        cdef Batch *batch
        cdef int64_t size
        cdef int magic, fault
        while end - self.position >= UP_TO_MAGIC:
            self.offset = load64(data + self.position)
            size = <int64_t>(<int32_t>load32(data + self.position + 8)) + LOG_OVERHEAD
            magic = <int8_t>data[self.position + 16]
            fault = check_prefix(size, magic, rules)
            if fault:
                return fault
            batch = self.room()
            if batch == NULL:
                return OUT_OF_MEMORY
            batch.position = self.position
            batch.size = size
            batch.magic = magic
            if end - self.position < size:
                return NONE
            if magic < 2:
                return NEEDS_PYTHON
            fault = read_header(data + self.position, size, batch) or check_place(batch, self.expected, rules)
            if fault:
                return fault
            self.accept(batch)
        return NONE

    cdef void accept(self, Batch *batch) noexcept nogil:
        self.expected = batch.last_offset + 1
        self.position += batch.size
        self.count += 1

    cdef int walk_legacy(self, data, object limit, Rules *rules) except -1:
        """One batch of an old format, which Python reads."""
        cdef Batch *batch = &self.batches[self.count]
        header, fault = read_legacy_header(data, batch.position, batch.size, batch.magic, limit)
        if fault:
            return fault
        batch.base_offset, batch.last_offset = header.base_offset, header.last_offset
        batch.base_timestamp, batch.max_timestamp = header.base_timestamp, header.max_timestamp
        batch.leader_epoch, batch.record_count = header.leader_epoch, header.record_count
        batch.producer_id, batch.attributes = header.producer_id, header.attributes
        fault = check_place(batch, self.expected, rules)
        if not fault:
            self.accept(batch)
        return fault


def scan_batches(data, int64_t expected_offset, rules):
    """``batch.scan_batches`` without the interpreter's lock."""
    cdef const uint8_t[::1] view = data
    cdef const uint8_t *start = &view[0] if view.shape[0] else NULL
    cdef int64_t size = view.shape[0]
    cdef BatchList found = BatchList()
    cdef bint anchored = expected_offset >= 0
    cdef int fault
    cdef Rules checked
    epochs = rules.epochs
    checked.start_offset, checked.end_offset = rules.start_offset, rules.end_offset
    checked.max_batch_bytes, checked.allow_offset_gaps = rules.max_batch_bytes, rules.allow_offset_gaps
    checked.any_epoch = epochs is None
    checked.epoch_count = len(epochs) if epochs is not None else 0
    checked.epochs = <Epoch *>malloc((checked.epoch_count or 1) * sizeof(Epoch))
    if checked.epochs == NULL:
        raise MemoryError
    try:
        for i in range(checked.epoch_count):
            checked.epochs[i].epoch, checked.epochs[i].start_offset = epochs[i]
        found.expected = expected_offset
        while True:
            with nogil:
                fault = found.walk(start, size, &checked)
            if fault == NEEDS_PYTHON:
                fault = found.walk_legacy(data, rules.max_decompressed_bytes, &checked)
                if not fault:
                    continue
            break
    finally:
        free(checked.epochs)
    if fault == OUT_OF_MEMORY:
        raise MemoryError
    if not fault and size - found.position >= UP_TO_MAGIC:
        found.needed = found.batches[found.count].size
    if fault == CHAIN and found.count == 1 and not anchored:
        found.count = found.position = 0
        found.offset = found.batches[0].base_offset
    if fault:
        found.error = fault_error(fault, found.position, found.offset)
    return found


# ---------------------------------------------------------------------------------------------------------------------
# Memory


# Large pieces are kept for the next block: memory fresh from the system costs more in page faults than decoding into it.
# All of this happens under the interpreter's lock.
cdef enum:
    SPARE_PIECES = 32
    SPARE_LEAST = 1 << 18
    SPARE_MOST = 1 << 26

cdef uint8_t *spare[SPARE_PIECES]
cdef int64_t spare_sizes[SPARE_PIECES]
cdef int spare_count = 0
cdef int64_t spare_total = 0


cdef void give(uint8_t *data, int64_t capacity) noexcept:
    """Frees a piece, or keeps it."""
    global spare_count, spare_total
    if capacity < SPARE_LEAST or spare_count == SPARE_PIECES or spare_total + capacity > SPARE_MOST:
        free(data)
        return
    spare[spare_count], spare_sizes[spare_count] = data, capacity
    spare_count += 1
    spare_total += capacity


cdef uint8_t *take(int64_t *capacity) noexcept:
    """The smallest kept piece of at least ``capacity`` bytes, if it is no larger than four times that; NULL if there is none."""
    global spare_count, spare_total
    cdef int i, best = -1
    cdef uint8_t *found
    for i in range(spare_count):
        if capacity[0] <= spare_sizes[i] <= 4 * capacity[0] and (best < 0 or spare_sizes[i] < spare_sizes[best]):
            best = i
    if best < 0:
        return NULL
    found, capacity[0] = spare[best], spare_sizes[best]
    spare_count -= 1
    spare_total -= spare_sizes[best]
    spare[best], spare_sizes[best] = spare[spare_count], spare_sizes[spare_count]
    return found


cdef class Memory:
    """Bytes on the C heap that Python and Arrow read through the buffer protocol."""

    cdef uint8_t *data
    cdef int64_t size
    cdef int64_t capacity

    def __cinit__(self):
        self.data = NULL
        self.size = self.capacity = 0

    def __dealloc__(self):
        give(self.data, self.capacity)

    def __len__(self):
        return self.size

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.data if self.data != NULL else <void *>b"", self.size, True, flags)

    cdef int grow(self, int64_t capacity) except -1:
        """Makes room for ``capacity`` bytes; what lies there already stays."""
        cdef uint8_t *grown
        if capacity <= self.capacity:
            return 0
        grown = take(&capacity) if capacity >= SPARE_LEAST else NULL
        if grown != NULL:
            if self.size:
                memcpy(grown, self.data, self.size)
            give(self.data, self.capacity)
        else:
            grown = <uint8_t *>realloc(self.data, capacity)
            if grown == NULL:
                raise MemoryError
        self.data, self.capacity = grown, capacity
        return 0

    cdef void shrink(self) noexcept:
        """Lets go of what is unused, if it is more than half."""
        cdef void *fitted
        if self.size < self.capacity // 2 and self.size:
            fitted = realloc(self.data, self.size)
            if fitted != NULL:
                self.data, self.capacity = <uint8_t *>fitted, self.size


cdef Memory memory_of(int64_t size):
    cdef Memory memory = Memory()
    memory.grow(size if size else 1)
    memory.size = size
    return memory


cdef class Arena:
    """``compression.Arena`` on the C heap. A reservation must be let go before the next one: nothing checks that."""

    cdef Memory memory

    def __cinit__(self):
        self.memory = Memory()

    def reserve(self, int64_t size):
        """``size`` writable bytes after what was kept so far."""
        self.require(size)
        return PyMemoryView_FromMemory(<char *>self.memory.data + self.memory.size, size, PyBUF_WRITE)

    def keep(self, int64_t size):
        """Keeps the first ``size`` bytes of the last reservation."""
        self.memory.size += size

    cdef int require(self, int64_t size) except -1:
        cdef int64_t wanted = self.memory.size + size + 1  # never nothing: codecs are not to see a null pointer
        if wanted > self.memory.capacity:
            self.memory.grow(max(wanted, self.memory.capacity * 2))
        return 0


# ---------------------------------------------------------------------------------------------------------------------
# The pass over records


cdef struct Cells:
    int64_t *offsets
    int64_t *timestamps
    int32_t *timestamp_types
    int32_t *epochs
    int32_t *keys
    int32_t *key_sizes
    int32_t *values
    int32_t *value_sizes
    int32_t *headers
    int32_t *header_counts


cdef inline const uint8_t *read_base128(const uint8_t *at, const uint8_t *end, int bits, uint64_t *value) noexcept nogil:
    """Returns the position after the number, NULL when it does not end in time."""
    cdef uint64_t result = 0
    cdef int shift = 0
    while at < end and shift < bits:
        result |= <uint64_t>(at[0] & 0x7F) << shift
        if at[0] < 0x80:
            value[0] = result
            return at + 1
        at += 1
        shift += 7
    return NULL


cdef inline const uint8_t *read_varint(const uint8_t *at, const uint8_t *end, int64_t *value) noexcept nogil:
    cdef uint64_t raw
    if at < end and at[0] < 0x80:
        value[0] = (at[0] >> 1) ^ -<int64_t>(at[0] & 1)
        return at + 1
    if end - at > 1 and at[1] < 0x80:
        raw = (at[0] & 0x7F) | (<uint64_t>at[1] << 7)
        value[0] = <int64_t>(raw >> 1) ^ -<int64_t>(raw & 1)
        return at + 2
    at = read_base128(at, end, 35, &raw)
    if at != NULL:
        value[0] = <int32_t>((<uint32_t>raw >> 1) ^ (<uint32_t>0 - (<uint32_t>raw & 1)))
    return at


cdef int skip_headers(const uint8_t *at, const uint8_t *end, int64_t count) noexcept nogil:
    cdef int64_t size
    while count:
        at = read_varint(at, end, &size)
        if at == NULL:
            return VARINT
        if not 0 <= size <= end - at:
            return HEADERS
        at = read_varint(at + size, end, &size)
        if at == NULL:
            return VARINT
        if not -1 <= size <= end - at:
            return HEADERS
        if size > 0:
            at += size
        count -= 1
    return NONE if at == end else BODY_SIZE


cdef int read_records(
    const uint8_t *origin, int64_t position, int64_t stop, Batch *batch, int64_t fetch_offset, int64_t end_offset,
    Cells *cells, int64_t *length,
) noexcept nogil:
    """The records of one batch in ``origin[position:stop]`` into the cells from ``length`` on, which have room for them."""
    cdef const uint8_t *at = origin + position
    cdef const uint8_t *end = origin + stop
    cdef const uint8_t *record_end
    cdef const uint8_t *key
    cdef int64_t size, offset_delta, key_size, value_size, header_count, offset
    cdef int64_t last_delta = -1, most = batch.last_offset - batch.base_offset
    cdef int64_t n = length[0]
    cdef uint64_t raw
    cdef int32_t i, fault
    cdef int32_t timestamp_type = -1 if batch.magic == 0 else (batch.attributes & LOG_APPEND_TIME) != 0
    for i in range(batch.record_count):
        at = read_varint(at, end, &size)
        if at == NULL:
            return VARINT
        if not MINIMAL_RECORD - 1 <= size <= end - at:
            return RECORD_SIZE
        record_end = at + size
        at += 1
        if at[0] < 0x80:  # a record has room for it: see MINIMAL_RECORD
            raw = at[0]
            at += 1
        else:
            at = read_base128(at, record_end, 70, &raw)
            if at == NULL:
                return VARINT
        at = read_varint(at, record_end, &offset_delta)
        if at == NULL:
            return VARINT
        key = read_varint(at, record_end, &key_size)
        if key == NULL:
            return VARINT
        if not -1 <= key_size <= record_end - key:
            return KEY_SIZE
        at = read_varint(key + key_size if key_size > 0 else key, record_end, &value_size)
        if at == NULL:
            return VARINT
        if not -1 <= value_size <= record_end - at:
            return VALUE_SIZE
        cells.values[n] = <int32_t>(at - origin)
        if value_size > 0:
            at += value_size
        at = read_varint(at, record_end, &header_count)
        if at == NULL:
            return VARINT
        if not 0 <= header_count <= record_end - at:
            return HEADERS
        if header_count or at != record_end:
            fault = skip_headers(at, record_end, header_count)
            if fault:
                return fault
        if not last_delta < offset_delta <= most:
            return OFFSET_DELTA
        last_delta = offset_delta
        offset = batch.base_offset + offset_delta
        cells.offsets[n] = offset
        if timestamp_type == 1:
            cells.timestamps[n] = batch.max_timestamp
        else:
            cells.timestamps[n] = <int64_t>(<uint64_t>batch.base_timestamp + ((raw >> 1) ^ (<uint64_t>0 - (raw & 1))))
        cells.timestamp_types[n] = timestamp_type
        cells.epochs[n] = batch.leader_epoch
        cells.keys[n] = <int32_t>(key - origin)
        cells.key_sizes[n] = <int32_t>key_size
        cells.value_sizes[n] = <int32_t>value_size
        cells.headers[n] = <int32_t>(at - origin)
        cells.header_counts[n] = <int32_t>header_count
        n += fetch_offset <= offset < end_offset
        at = record_end
    if at != end:
        return TRAILING_BYTES
    length[0] = n
    return NONE


include "_kernel_columns.pxi"
