# Part of _kernel.pyx: the walk over headers, the twin of batch.py.


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
    cdef int64_t i
    if not rules.start_offset <= batch.base_offset <= batch.last_offset <= rules.end_offset:
        return OUTSIDE_SEGMENT
    if expected >= 0 and (batch.base_offset < expected or (batch.base_offset > expected and not rules.allow_offset_gaps)):
        return CHAIN
    if batch.magic == 2 and not rules.any_epoch and not is_epoch_possible(batch, rules):
        return LEADER_EPOCH
    return NONE


cdef bint is_epoch_possible(Batch *batch, Rules *rules) noexcept nogil:
    cdef int64_t epoch = -1
    cdef int64_t i
    if rules.epoch_count and batch.last_offset < rules.epochs[0].start_offset:
        return 0 <= batch.leader_epoch <= rules.epochs[0].epoch
    for i in range(rules.epoch_count):
        if i and rules.epochs[i].start_offset > batch.base_offset:
            break
        epoch = rules.epochs[i].epoch
    return epoch == batch.leader_epoch


cdef class BatchList:
    """``batch.BatchList`` over an array of C structures."""

    cdef Memory memory
    cdef Batch *batches
    cdef int64_t count
    cdef int64_t position
    cdef int64_t expected
    cdef int64_t offset
    cdef readonly object error
    cdef readonly object needed

    def __cinit__(self):
        self.memory = Memory()
        self.batches = NULL
        self.count = self.position = 0
        self.offset = -1
        self.error = None
        self.needed = 0

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
        """Whether the records of any batch have to be decompressed or rewritten."""
        cdef int64_t i
        for i in range(self.count):
            if self.batches[i].attributes & CODEC_MASK or self.batches[i].magic < 2:
                return True
        return False

    def count_below(self, int64_t end_offset):
        """Returns the number of batches that begin below ``end_offset``."""
        cdef int64_t count = self.count
        while count and self.batches[count - 1].base_offset >= end_offset:
            count -= 1
        return count

    cdef bint full(self) noexcept nogil:
        return (self.count + 1) * <int64_t>sizeof(Batch) > self.memory.capacity

    cdef int grow(self) except -1:
        self.memory.size = self.count * sizeof(Batch)
        self.memory.grow(max(64, 2 * self.count) * sizeof(Batch))
        self.batches = <Batch *>self.memory.data
        return 0

    cdef int walk(self, const uint8_t *data, int64_t end, Rules *rules) noexcept nogil:
        """Walks on from ``position``. Returns a fault, NONE at the end, NEEDS_ROOM, or NEEDS_PYTHON for an old format."""
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
            if self.full():
                return NEEDS_ROOM
            batch = &self.batches[self.count]
            batch.position = self.position
            batch.size = size
            batch.magic = magic
            batch.marker = NOT_READ
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
        """Adds one batch of an old format, which Python reads. Returns its fault."""
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
    cdef Memory lineage = memory_of(checked.epoch_count * sizeof(Epoch))
    checked.epochs = <Epoch *>lineage.data
    for i in range(checked.epoch_count):
        checked.epochs[i].epoch, checked.epochs[i].start_offset = epochs[i]
    found.expected = expected_offset
    while True:
        with nogil:
            fault = found.walk(start, size, &checked)
        if fault == NEEDS_ROOM:
            found.grow()
            continue
        if fault == NEEDS_PYTHON:
            fault = found.walk_legacy(data, rules.max_decompressed_bytes, &checked)
            if not fault:
                continue
        break
    if not fault and size - found.position >= UP_TO_MAGIC:
        found.needed = found.batches[found.count].size
    if fault == CHAIN and found.count == 1 and not anchored:
        found.count = found.position = 0
        found.offset = found.batches[0].base_offset
    if fault:
        found.error = fault_error(fault, found.position, found.offset)
    return found
