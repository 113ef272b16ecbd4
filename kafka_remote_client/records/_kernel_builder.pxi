# Part of _kernel.pyx: the codecs and the builder, the twin of columns.ColumnBuilder.

decompression_error = cramjam.DecompressionError
cdef object gzip_into = cramjam.gzip.decompress_into
cdef object snappy_into = cramjam.snappy.decompress_raw_into
cdef object lz4_into = cramjam.lz4.decompress_into
cdef object zstd_into = cramjam.zstd.decompress_into

cdef enum:
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


# ---------------------------------------------------------------------------------------------------------------------
# How many bytes a compressed batch can hold, for its codec's output; -1: compression.py decompresses the batch


cdef int64_t gzip_bound(const uint8_t *data, int64_t size) noexcept nogil:
    cdef int64_t guess
    if size < 18:
        return -1
    guess = load_little(data + size - 4)
    return guess if 0 < guess <= size * 1032 else -1


cdef int64_t lz4_bound(const uint8_t *data, int64_t size) noexcept nogil:
    cdef int64_t bound = 0, at, block, most
    cdef uint32_t word
    if size < 7 or load32(data) != 0x04224D18:
        return -1
    if not 4 <= (data[5] >> 4 & 7):
        return -1
    most = <int64_t>1 << (8 + 2 * (data[5] >> 4 & 7))
    at = 7 + (8 if data[4] & 0x08 else 0) + (4 if data[4] & 0x01 else 0)
    while at + 4 <= size:
        word = load_little(data + at)
        at += 4
        if word == 0:
            return bound if at + (4 if data[4] & 0x04 else 0) == size else -1
        block = word & 0x7FFFFFFF
        at += block + (4 if data[4] & 0x10 else 0)
        if not word >> 31:
            block *= 256
        bound += block if block < most else most
    return -1


cdef int64_t zstd_bound(const uint8_t *data, int64_t size) noexcept nogil:
    cdef int64_t bound = 0, at = 0
    cdef uint32_t word
    cdef uint8_t flags, single
    while at < size:
        if size - at < 6 or load32(data + at) != 0x28B52FFD:
            return -1
        flags = data[at + 4]
        single = flags >> 5 & 1
        at += 5 + (1 - single) + ((flags & 3) if (flags & 3) < 3 else 4)
        at += single if flags >> 6 == 0 else <int64_t>1 << (flags >> 6)
        while True:
            if at + 3 > size:
                return -1
            word = data[at] | <uint32_t>data[at + 1] << 8 | <uint32_t>data[at + 2] << 16
            at += 3 + (1 if word >> 1 & 3 == 1 else word >> 3)
            bound += word >> 3 if word >> 1 & 3 < 2 else 131072
            if word & 1:
                break
        at += 4 if flags & 4 else 0
    return bound


cdef int64_t snappy_length(const uint8_t *data, int64_t size) noexcept nogil:
    cdef uint64_t length
    if read_base128(data, data + size, 35, &length) == NULL or length > <uint64_t>size * 64:
        return -1
    return <int64_t>length


cdef inline uint32_t load_little(const uint8_t *at) noexcept nogil:
    return at[0] | <uint32_t>at[1] << 8 | <uint32_t>at[2] << 16 | <uint32_t>at[3] << 24


# ---------------------------------------------------------------------------------------------------------------------
# The builder


cdef double usual_ratio = 4.0  # of decompressed to compressed bytes, of the last block of any thread

cdef enum:
    CACHED = 1 << 18  # bytes to decompress before their records are read
    RUN = 1024  # batches to select together, while the processor's cache holds their headers
    AHEAD = 8  # batches to prefetch: the processor itself loads consecutive bytes, but not the bytes after a skipped batch


cdef class ColumnBuilder:
    """``columns.ColumnBuilder``. It decompresses a few batches at a time, then reads their records in one pass without the
    interpreter's lock, while the processor's cache still holds the decompressed bytes.
    """

    cdef object data
    cdef const uint8_t *start
    cdef BatchList batches
    cdef Arena arena
    cdef int64_t fetch_offset
    cdef int64_t end_offset
    cdef int64_t limit
    cdef int64_t block_bytes
    cdef int64_t records
    cdef int64_t compressed
    cdef AbortedTransactionFilter aborted
    cdef bint advanced  # whether the last selected batches changed the filter's state
    cdef bint mixed  # whether the last selected batches include control batches
    cdef Columns columns

    def __cinit__(self, data, BatchList batches, *, bint arena, int64_t fetch_offset, int64_t end_offset,
                  int64_t max_decompressed_bytes, int64_t block_bytes, AbortedTransactionFilter aborted):
        cdef const uint8_t[::1] view = data
        self.data = data
        self.start = &view[0] if view.shape[0] else NULL
        self.batches = batches
        self.arena = Arena() if arena else None
        self.fetch_offset = fetch_offset
        self.end_offset = end_offset
        self.limit = max_decompressed_bytes
        self.block_bytes = block_bytes
        self.aborted = aborted
        self.advanced = self.mixed = False
        self.records = self.compressed = 0
        self.columns = Columns()

    def append(self, int64_t start, int64_t stop):
        """Adds the records of the batches ``[start, stop)``. Returns the first batch that is not done, and its fault."""
        cdef int64_t first, selected, reached
        cdef int fault = NONE, damage = NONE, unread = NONE
        if self.arena is not None:
            self.expect(start, stop)
        while start < stop and not unread:
            self.columns.reserve(1)  # for a marker's record, which is not kept
            first = start
            with nogil:
                selected = self.select(start, min(stop, start + RUN), &unread)
            if unread == NEEDS_PYTHON:
                unread = self.read_any_marker(selected)
            while start < selected:
                reached, fault = self.fetch_some(start, selected)
                self.columns.reserve(self.count(start, reached))
                with nogil:
                    while start < reached and not damage:
                        if self.mixed and start + AHEAD < reached and self.batches.batches[start + AHEAD].taken:
                            krm_expect(self.origin() + self.batches.batches[start + AHEAD].records_start)
                        if self.batches.batches[start].taken:
                            damage = read_records(self.origin(), &self.batches.batches[start], self.fetch_offset,
                                                  self.end_offset, &self.columns.cells, &self.columns.length)
                        start += damage == NONE
                fault = damage or fault
                if fault or (start < selected and self.full()):
                    self.undo(first, start)
                    return start, fault
        return start, unread

    cdef int64_t select(self, int64_t start, int64_t stop, int *fault) noexcept nogil:
        """Decides whether the application gets the batches from ``start`` on. Returns the first batch without a decision.

        That is a control batch that does not parse or that Python has to read, or ``stop``.
        """
        cdef Batch *batch
        cdef bint is_control, aborts
        self.advanced = self.mixed = False
        while start < stop:
            batch = &self.batches.batches[start]
            if self.mixed and start + AHEAD < stop:
                krm_expect(self.start + self.batches.batches[start + AHEAD].position + BATCH_OVERHEAD)
            is_control = (batch.attributes & CONTROL) != 0
            batch.taken = False
            if batch.last_offset >= self.fetch_offset:
                if is_control:
                    self.mixed = True
                    fault[0] = self.read_marker(batch)
                    if fault[0]:
                        return start
                batch.taken = not is_control
                if self.aborted is not None and batch.producer_id >= 0:
                    aborts = is_control and batch.marker == ABORTS
                    if not self.advanced and self.aborted.changes(batch, aborts):
                        self.aborted.save()
                        self.advanced = True
                    batch.taken = not self.aborted.dropped(batch, aborts) and not is_control
            start += 1
        return start

    cdef void undo(self, int64_t first, int64_t stop) noexcept nogil:
        """Restores the filter, and repeats only the batches from ``first`` to ``stop``, where the block ends."""
        cdef Batch *batch
        if not self.advanced:
            return
        self.aborted.restore()
        while first < stop:
            batch = &self.batches.batches[first]
            if batch.last_offset >= self.fetch_offset and batch.producer_id >= 0:
                self.aborted.dropped(batch, (batch.attributes & CONTROL) != 0 and batch.marker == ABORTS)
            first += 1

    cdef int read_marker(self, Batch *batch) noexcept nogil:
        """Parses a control batch, and stores what its first record marks if the filter needs that."""
        cdef const uint8_t *key
        cdef int64_t none = 9223372036854775807, n = self.columns.length
        cdef int fault
        if batch.marker != NOT_READ:
            return NONE
        if batch.record_count > 1 or batch.attributes & CODEC_MASK:
            return NEEDS_PYTHON
        batch.records_start, batch.records_stop = batch.position + BATCH_OVERHEAD, batch.position + batch.size
        if <int64_t>batch.record_count * MINIMAL_RECORD > batch.records_stop - batch.records_start:
            return RECORD_COUNT
        fault = read_records(self.start, batch, none, none, &self.columns.cells, &n)
        if fault:
            return fault
        batch.marker = ANOTHER
        if batch.record_count and self.aborted is not None and batch.producer_id >= 0:
            key = self.start + self.columns.cells.keys[n]
            if self.columns.cells.key_sizes[n] < 4 or key[0] & 0x80:
                batch.marker = NOT_READ
                return CONTROL_RECORD
            if key[2] == 0 and key[3] == 0:
                batch.marker = ABORTS
        return NONE

    cdef int read_any_marker(self, int64_t index) except -2:
        """Does the same for a control batch that no broker writes: compressed, or with several records."""
        cdef Batch *batch = &self.batches.batches[index]
        cdef bint filtered = self.aborted is not None and batch.producer_id >= 0
        try:
            aborts = is_abort_marker(self.data, self.batches[index], self.limit, filtered=filtered)
        except BatchFault as caught:
            return caught.fault
        batch.marker = ABORTS if aborts else ANOTHER
        return NONE

    cdef bint full(self) noexcept:
        return (self.arena.memory.size if self.arena is not None else 0) + self.records * COLUMN_BYTES >= self.block_bytes

    cdef const uint8_t *origin(self) noexcept nogil:
        return self.start if self.arena is None else self.arena.memory.data

    cdef int64_t count(self, int64_t start, int64_t stop) noexcept:
        """Returns the number of records in those of the batches that the application gets."""
        cdef int64_t index, total = 0
        for index in range(start, stop):
            if self.batches.batches[index].taken:
                total += self.batches.batches[index].record_count
        return total

    cdef int expect(self, int64_t start, int64_t stop) except -1:
        """Reserves memory by the previous block's ratio of decompressed to compressed bytes, plus a quarter.

        Memory then seldom moves, and its pieces fit the next block.
        """
        cdef int64_t index, compressed = 0, records = 0, bytes
        cdef double ratio
        for index in range(start, stop):
            compressed += self.batches.batches[index].size
            records += self.batches.batches[index].record_count
        with cython.critical_section(shared):
            ratio = usual_ratio
        bytes = min(<int64_t>(1.25 * compressed * ratio) + 65536, self.block_bytes)
        self.arena.require(bytes)
        return self.columns.reserve(min(records, bytes // MINIMAL_RECORD, self.block_bytes // COLUMN_BYTES))

    cdef tuple fetch_some(self, int64_t start, int64_t stop):
        """Makes the records of some of the batches ``[start, stop)`` readable: sets where they are, checks their number.

        The records are not in the columns yet. Returns the first batch that is not done, and its fault.
        """
        cdef int64_t index = start, until = 0, size
        cdef Batch *batch
        if self.arena is not None:
            until = self.arena.memory.size + CACHED
        while index < stop:
            batch = &self.batches.batches[index]
            if not batch.taken:
                index += 1
                continue
            if self.full():
                break
            if self.arena is None:
                batch.records_start, batch.records_stop = batch.position + BATCH_OVERHEAD, batch.position + batch.size
            elif self.arena.memory.size >= until:
                break
            else:
                batch.records_start = self.arena.memory.size
                if not self.fast_copy(batch):
                    try:
                        copy_records(self.data, self.batches[index], self.arena, self.limit)
                    except BatchFault as caught:
                        return index, caught.fault
                batch.records_stop = self.arena.memory.size
                self.compressed += batch.size
            size = batch.records_stop - batch.records_start
            if <int64_t>batch.record_count * MINIMAL_RECORD > size:
                return index, RECORD_COUNT
            if <int64_t>batch.record_count * COLUMN_BYTES > self.limit:
                return index, TOO_LARGE
            self.records += batch.record_count
            index += 1
        return index, NONE

    cdef bint fast_copy(self, Batch *batch) except -1:
        """Returns False if it copied nothing. The Python functions handle every case and every error."""
        cdef const uint8_t *source = self.start + batch.position + BATCH_OVERHEAD
        cdef int64_t size = batch.size - BATCH_OVERHEAD
        cdef int codec = batch.attributes & CODEC_MASK
        cdef int64_t bound
        if batch.magic < 2:
            return False
        if codec == NONE:
            self.arena.require(size)
            memcpy(self.arena.memory.data + self.arena.memory.size, source, size)
            self.arena.keep(size)
            return True
        if codec == GZIP:
            return self.decompress(gzip_into, source, size, gzip_bound(source, size))
        if codec == LZ4:
            return self.decompress(lz4_into, source, size, lz4_bound(source, size))
        if codec == ZSTD:
            return self.decompress(zstd_into, source, size, zstd_bound(source, size))
        if codec == SNAPPY and size > 16 and memcmp(source, b"\x82SNAPPY\x00", 8) != 0:
            return self.decompress(snappy_into, source, size, snappy_length(source, size))
        if codec == SNAPPY and size > 16:
            return self.framed_snappy(source, size)
        return False

    cdef bint decompress(self, function, const uint8_t *source, int64_t size, int64_t bound) except -1:
        if not 0 < bound <= self.limit:
            return False
        self.arena.require(bound)
        try:
            kept = function(PyMemoryView_FromMemory(<char *>source, size, PyBUF_READ), self.arena.reserve(bound))
        except decompression_error:
            return False
        self.arena.keep(kept)
        return True

    cdef bint framed_snappy(self, const uint8_t *source, int64_t size) except -1:
        """Decompresses one stream in xerial's framing, block by block. Returns False for anything else."""
        cdef int64_t at = 16, block, before = self.arena.memory.size
        if <int32_t>load32(source + 8) < 1:
            return False
        while at < size:
            block = <int32_t>load32(source + at) if size - at >= 4 else -1
            at += 4
            if (not 0 < block <= size - at
                    or not self.decompress(snappy_into, source + at, block, snappy_length(source + at, block))
                    or self.arena.memory.size - before > self.limit):
                self.arena.memory.size = before
                return False
            at += block
        return True

    def finish(self):
        """Returns the columns. The builder cannot be used again."""
        global usual_ratio
        if self.arena is not None:
            if self.arena.memory.size and self.compressed:
                with cython.critical_section(shared):
                    usual_ratio = <double>self.arena.memory.size / self.compressed
            self.arena.memory.shrink()
            self.columns.finish(self.arena.memory)
        else:
            self.columns.finish(self.data)
        return self.columns
