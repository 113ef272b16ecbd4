# The second half of _kernel.pyx: columns, what is made of them, and their builder.

cdef object decompression_error = cramjam.DecompressionError
cdef object gzip_into = cramjam.gzip.decompress_into
cdef object snappy_into = cramjam.snappy.decompress_raw_into
cdef object lz4_into = cramjam.lz4.decompress_into
cdef object zstd_into = cramjam.zstd.decompress_into

cdef enum:
    COLUMN_COUNT = 10
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

cdef const int64_t *ITEM_SIZES = [8, 8, 4, 4, 4, 4, 4, 4, 4, 4]


cdef class Columns:
    """``columns.Columns`` on the C heap."""

    cdef tuple memories
    cdef Cells cells
    cdef int64_t length
    cdef int64_t capacity
    cdef object source  # keeps ``origin`` alive
    cdef const uint8_t *origin
    cdef const uint8_t *origin_end

    def __cinit__(self):
        self.memories = tuple([Memory() for _ in range(COLUMN_COUNT)])
        self.length = self.capacity = 0
        self.source = b""
        self.origin = self.origin_end = NULL

    cdef int reserve(self, int64_t more) except -1:
        cdef int64_t wanted = self.length + more
        cdef Memory memory
        cdef int i
        if wanted <= self.capacity:
            return 0
        wanted = max(wanted, self.capacity + self.capacity // 2)
        for i in range(COLUMN_COUNT):
            memory = self.memories[i]
            memory.size = self.length * ITEM_SIZES[i]
            memory.grow(wanted * ITEM_SIZES[i])
        self.capacity = wanted
        self.point()
        return 0

    cdef void point(self):
        self.cells.offsets = <int64_t *>(<Memory>self.memories[0]).data
        self.cells.timestamps = <int64_t *>(<Memory>self.memories[1]).data
        self.cells.timestamp_types = <int32_t *>(<Memory>self.memories[2]).data
        self.cells.epochs = <int32_t *>(<Memory>self.memories[3]).data
        self.cells.keys = <int32_t *>(<Memory>self.memories[4]).data
        self.cells.key_sizes = <int32_t *>(<Memory>self.memories[5]).data
        self.cells.values = <int32_t *>(<Memory>self.memories[6]).data
        self.cells.value_sizes = <int32_t *>(<Memory>self.memories[7]).data
        self.cells.headers = <int32_t *>(<Memory>self.memories[8]).data
        self.cells.header_counts = <int32_t *>(<Memory>self.memories[9]).data

    cdef int finish(self, source) except -1:
        cdef const uint8_t[::1] view = source
        cdef Memory memory
        cdef int i
        self.source = source
        self.origin = &view[0] if view.shape[0] else NULL
        self.origin_end = self.origin + view.shape[0]
        for i in range(COLUMN_COUNT):
            memory = self.memories[i]
            memory.size = self.length * ITEM_SIZES[i]
            memory.shrink()
        self.point()
        return 0

    def __len__(self):
        return self.length

    @property
    def nbytes(self):
        """Bytes that these columns keep alive, the source buffer included."""
        cdef Memory memory
        cdef int64_t total = len(self.source)
        if isinstance(self.source, Memory):
            total = (<Memory>self.source).capacity
        for memory in self.memories:
            total += memory.capacity
        return total

    cdef inline object slice(self, int32_t position, int32_t size):
        return None if size < 0 else PyBytes_FromStringAndSize(<const char *>self.origin + position, size)

    def offset(self, int64_t index):
        return self.cells.offsets[index]

    def timestamp(self, int64_t index):
        return self.cells.timestamps[index]

    def timestamp_type(self, int64_t index):
        return self.cells.timestamp_types[index]

    def leader_epoch(self, int64_t index):
        return self.cells.epochs[index]

    def key(self, int64_t index):
        return self.slice(self.cells.keys[index], self.cells.key_sizes[index])

    def value(self, int64_t index):
        return self.slice(self.cells.values[index], self.cells.value_sizes[index])

    cpdef list headers(self, int64_t index):
        """Names as text, malformed UTF-8 as U+FFFD."""
        cdef list found = []
        cdef const uint8_t *at = self.origin + self.cells.headers[index]
        cdef const uint8_t *end = self.origin_end
        cdef int64_t size = 0
        cdef object name
        for _ in range(self.cells.header_counts[index]):
            at = read_varint(at, end, &size)
            name = PyUnicode_DecodeUTF8(<const char *>at, size, "replace")
            at = read_varint(at + size, end, &size)
            if size < 0:
                found.append((name, None))
            else:
                found.append((name, PyBytes_FromStringAndSize(<const char *>at, size)))
                at += size
        return found

    def rows(self, int64_t start, int64_t stop):
        """Plain tuples of the records ``[start, stop)``."""
        cdef int64_t i
        for i in range(start, stop):
            yield (self.cells.offsets[i], self.cells.timestamps[i], self.cells.timestamp_types[i], self.cells.epochs[i],
                   self.key(i), self.value(i), self.headers(i))

    def messages(self, str topic, int partition, int64_t start, int64_t stop):
        """``confluent_kafka.Message`` for the records ``[start, stop)``.

        One argument tuple serves all calls for as long as nobody else holds it, which saves a third of the time.
        """
        cdef list found = []
        cdef object number = partition, epoch = None, timestamp = None, latency = -1.0, arguments = None
        cdef int64_t i, last_timestamp = 0
        cdef int32_t last_epoch = 0, kind, last_kind = 0
        for i in range(start, stop):
            if epoch is None or self.cells.epochs[i] != last_epoch:
                last_epoch = self.cells.epochs[i]
                epoch = last_epoch
            kind = self.cells.timestamp_types[i]
            if timestamp is None or self.cells.timestamps[i] != last_timestamp or kind != last_kind:
                last_timestamp, last_kind = self.cells.timestamps[i], kind
                if kind < 0:
                    timestamp = (0, 0)
                else:
                    timestamp = (kind + 1, last_timestamp)
            if arguments is None or Py_REFCNT(arguments) != 1:
                arguments = PyTuple_New(10)
                put(arguments, 0, topic)
                put(arguments, 1, number)
                put(arguments, 6, None)
                put(arguments, 8, latency)
            put(arguments, 2, self.cells.offsets[i])
            put(arguments, 3, self.slice(self.cells.keys[i], self.cells.key_sizes[i]))
            put(arguments, 4, self.slice(self.cells.values[i], self.cells.value_sizes[i]))
            put(arguments, 5, self.headers(i) if self.cells.header_counts[i] else None)
            put(arguments, 7, timestamp)
            put(arguments, 9, epoch)
            found.append(PyObject_Call(Message, arguments, NULL))
        return found

    # What Arrow takes over without another copy

    def offsets_buffer(self):
        """int64 per record."""
        return self.memories[0]

    def timestamp_types_buffer(self):
        """int32 per record."""
        return self.memories[2]

    def microseconds(self):
        """int64 per record. Raises OverflowError for a timestamp that does not fit."""
        cdef Memory memory = memory_of(self.length * 8)
        cdef int64_t *out = <int64_t *>memory.data
        cdef int64_t i
        cdef int64_t most = 9223372036854775
        cdef bint fits = True
        with nogil:
            for i in range(self.length):
                fits &= -most <= self.cells.timestamps[i] <= most
                out[i] = <int64_t>(<uint64_t>self.cells.timestamps[i] * 1000)
        if not fits:
            raise OverflowError
        return memory

    def binary_column(self, bint values):
        """Values (or keys) as (int32 offsets, data, validity bitmap or None, number of nulls)."""
        cdef int32_t *positions = self.cells.values if values else self.cells.keys
        cdef int32_t *sizes = self.cells.value_sizes if values else self.cells.key_sizes
        return gather(self.origin, positions, sizes, self.length)

    def header_columns(self):
        """Headers as (int32 list offsets, names, values), the latter two as from ``binary_column``."""
        cdef int64_t total = 0, i, count, size = 0, n = 0
        cdef const uint8_t *at
        cdef const uint8_t *end = self.origin_end
        for i in range(self.length):
            total += self.cells.header_counts[i]
        cdef Memory lists = memory_of((self.length + 1) * 4)
        cdef Memory scratch = memory_of(total * 16)
        cdef int32_t *list_offsets = <int32_t *>lists.data
        cdef int32_t *names = <int32_t *>scratch.data
        cdef int32_t *name_sizes = names + total
        cdef int32_t *values = names + 2 * total
        cdef int32_t *value_sizes = names + 3 * total
        if not total:
            memset(list_offsets, 0, lists.size)
            return lists, gather(self.origin, names, name_sizes, 0), gather(self.origin, values, value_sizes, 0)
        with nogil:
            for i in range(self.length):
                list_offsets[i] = <int32_t>n
                at = self.origin + self.cells.headers[i]
                count = self.cells.header_counts[i]
                while count:
                    at = read_varint(at, end, &size)
                    names[n], name_sizes[n] = <int32_t>(at - self.origin), <int32_t>size
                    at = read_varint(at + size, end, &size)
                    values[n], value_sizes[n] = <int32_t>(at - self.origin), <int32_t>size
                    if size > 0:
                        at += size
                    n += 1
                    count -= 1
            list_offsets[self.length] = <int32_t>n
        return lists, gather(self.origin, names, name_sizes, total), gather(self.origin, values, value_sizes, total)


cdef inline void put(tuple arguments, Py_ssize_t index, object value):
    """Sets an item of a tuple that only we hold."""
    cdef PyObject *before = (<PyTupleObject *>arguments).ob_item[index]
    Py_INCREF(value)
    (<PyTupleObject *>arguments).ob_item[index] = <PyObject *>value
    Py_XDECREF(before)


cdef object gather(const uint8_t *origin, const int32_t *positions, const int32_t *sizes, int64_t length):
    """Slices of ``origin`` side by side, as Arrow's binary layout."""
    cdef int64_t total = 0, nulls = 0, i, at = 0
    with nogil:
        for i in range(length):
            total += sizes[i] if sizes[i] > 0 else 0
            nulls += sizes[i] < 0
    cdef Memory offsets = memory_of((length + 1) * 4)
    cdef Memory data = memory_of(total)
    cdef Memory validity = memory_of((length + 7) // 8) if nulls else None
    cdef int32_t *ends = <int32_t *>offsets.data
    cdef uint8_t *bits = validity.data if nulls else NULL
    with nogil:
        if nulls:
            memset(bits, 0xFF, (length + 7) // 8)
        for i in range(length):
            ends[i] = <int32_t>at
            if sizes[i] > 0:
                memcpy(data.data + at, origin + positions[i], sizes[i])
                at += sizes[i]
            elif sizes[i] < 0:
                bits[i >> 3] &= ~(1 << (i & 7))
        ends[length] = <int32_t>at
    return offsets, data, validity, nulls


# ---------------------------------------------------------------------------------------------------------------------
# How much a compressed batch can hold, for the memory to hand to its codec; -1 leaves the batch to compression.py


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


cdef double usual_ratio = 4.0  # of decompressed to compressed bytes


cdef class ColumnBuilder:
    """``columns.ColumnBuilder``: first all codecs, then one pass over all records without the interpreter's lock."""

    cdef object data
    cdef const uint8_t *start
    cdef BatchList batches
    cdef Arena arena
    cdef int64_t fetch_offset
    cdef int64_t end_offset
    cdef int64_t limit
    cdef int64_t block_bytes
    cdef int64_t compressed
    cdef Columns columns

    def __cinit__(self, data, BatchList batches, *, bint arena, int64_t fetch_offset, int64_t end_offset,
                  int64_t max_decompressed_bytes, int64_t block_bytes):
        cdef const uint8_t[::1] view = data
        self.data = data
        self.start = &view[0] if view.shape[0] else NULL
        self.batches = batches
        self.arena = Arena() if arena else None
        self.fetch_offset = fetch_offset
        self.end_offset = end_offset
        self.limit = max_decompressed_bytes
        self.block_bytes = block_bytes
        self.compressed = 0
        self.columns = Columns()

    def append(self, int64_t start, int64_t stop):
        """Adds the records of the batches ``[start, stop)``; the first batch not added and its fault."""
        cdef int64_t index, total = 0, size
        cdef int fault = NONE, damage
        cdef Batch *batch
        cdef Memory ends = None
        cdef int64_t *arena_ends = NULL
        cdef const uint8_t *origin = self.start
        cdef int64_t arena_start = 0, position
        if self.arena is not None:
            ends = memory_of((stop - start) * 8)
            arena_ends = <int64_t *>ends.data
            arena_start = self.arena.memory.size
            stop, fault = self.fill_arena(start, stop, arena_ends)
            origin = self.arena.memory.data
        position = arena_start
        for index in range(start, stop):
            batch = &self.batches.batches[index]
            size = batch.size - BATCH_OVERHEAD
            if arena_ends != NULL:
                size = arena_ends[index - start] - position
                position = arena_ends[index - start]
            if <int64_t>batch.record_count * MINIMAL_RECORD > size:
                stop, fault = index, RECORD_COUNT
                break
            total += batch.record_count
        self.columns.reserve(total)
        position = arena_start
        index = start
        damage = NONE
        with nogil:
            while index < stop:
                batch = &self.batches.batches[index]
                if arena_ends == NULL:
                    damage = read_records(origin, batch.position + BATCH_OVERHEAD, batch.position + batch.size, batch,
                                          self.fetch_offset, self.end_offset, &self.columns.cells, &self.columns.length)
                else:
                    damage = read_records(origin, position, arena_ends[index - start], batch,
                                          self.fetch_offset, self.end_offset, &self.columns.cells, &self.columns.length)
                    position = arena_ends[index - start]
                if damage:
                    break
                index += 1
        return index, damage or fault

    cdef tuple fill_arena(self, int64_t start, int64_t stop, int64_t *ends):
        """Decompresses what it can of the batches ``[start, stop)``; the first one not there and its fault."""
        cdef int64_t index, compressed = 0
        cdef Memory memory = self.arena.memory
        for index in range(start, stop):
            compressed += self.batches.batches[index].size
        # what the block before needed, and a quarter more: so the arena seldom moves, and its piece fits the next block
        self.arena.require(min(<int64_t>(1.25 * compressed * usual_ratio) + 65536, self.block_bytes))
        self.compressed += compressed
        for index in range(start, stop):
            if memory.size >= self.block_bytes:
                return index, NONE
            if not self.fast_copy(&self.batches.batches[index]):
                try:
                    copy_records(self.data, self.batches[index], self.arena, self.limit)
                except BatchFault as caught:
                    return index, caught.fault
            ends[index - start] = memory.size
        return stop, NONE

    cdef bint fast_copy(self, Batch *batch) except -1:
        """False = not done: the batch is for the Python functions, which know every case and every error."""
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
        """One stream in xerial's framing, block by block; another stream behind it is left to Python."""
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
        """The columns; the builder is used up."""
        global usual_ratio
        if self.arena is not None:
            if self.arena.memory.size and self.compressed:
                usual_ratio = <double>self.arena.memory.size / self.compressed
            self.arena.memory.shrink()
            self.columns.finish(self.arena.memory)
        else:
            self.columns.finish(self.data)
        return self.columns
