# Part of _kernel.pyx: columns and the values made from them, the twin of columns.Columns.

cdef enum:
    COLUMN_COUNT = 10
    COLUMN_BYTES = 48  # of one record in all columns

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
        """Bytes that these columns keep alive, including the source buffer."""
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

    def headers(self, int64_t index):
        """Names as text, malformed UTF-8 as U+FFFD."""
        return self.named(index, False)

    cdef list named(self, int64_t index, bint of_message):
        """Headers. ``of_message``: names end before their first NUL, as in confluent_kafka's messages; see record.py."""
        cdef list found = []
        cdef const void *nul
        cdef const uint8_t *at = self.origin + self.cells.headers[index]
        cdef const uint8_t *end = self.origin_end
        cdef int64_t size = 0
        cdef object name
        for _ in range(self.cells.header_counts[index]):
            at = read_varint(at, end, &size)
            nul = memchr(at, 0, size) if of_message else NULL
            name = PyUnicode_DecodeUTF8(<const char *>at, size if nul == NULL else <const uint8_t *>nul - at, "replace")
            at = read_varint(at + size, end, &size)
            if size < 0:
                found.append((name, None))
            else:
                found.append((name, PyBytes_FromStringAndSize(<const char *>at, size)))
                at += size
        return found

    def rows(self, int64_t start, int64_t stop):
        """Yields the records ``[start, stop)`` as plain tuples."""
        cdef int64_t i
        for i in range(start, stop):
            yield (self.cells.offsets[i], self.cells.timestamps[i], self.cells.timestamp_types[i], self.cells.epochs[i],
                   self.key(i), self.value(i), self.named(i, False))

    def messages(self, str topic, int partition, int64_t start, int64_t stop):
        """Returns a ``confluent_kafka.Message`` for each of the records ``[start, stop)``.

        Copies one message if the memory layout of messages is known. Otherwise all calls share one argument tuple while no
        other code holds a reference to it, which saves a third of the time.
        """
        if layout.words:
            return self.copies(topic, partition, start, stop)
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
            put(arguments, 5, self.named(i, True) if self.cells.header_counts[i] else None)
            put(arguments, 7, timestamp)
            put(arguments, 9, epoch)
            found.append(PyObject_Call(Message, arguments, NULL))
        return found

    cdef list copies(self, str topic, int partition, int64_t start, int64_t stop):
        cdef list found = PyList_New(stop - start)
        cdef object pattern = None, message
        cdef int64_t i, timestamp = 0
        cdef int32_t epoch = 0, kind = 0
        for i in range(start, stop):
            if pattern is None or self.cells.epochs[i] != epoch or self.cells.timestamp_types[i] != kind:
                epoch, kind = self.cells.epochs[i], self.cells.timestamp_types[i]
                pattern = Message(topic, partition, 0, None, None, None, None, (kind + 1, 0), -1.0, epoch)
            timestamp = self.cells.timestamps[i] if kind >= 0 else 0
            message = copied(pattern, self.cells.offsets[i],
                             self.slice(self.cells.keys[i], self.cells.key_sizes[i]),
                             self.slice(self.cells.values[i], self.cells.value_sizes[i]),
                             self.named(i, True) if self.cells.header_counts[i] else None, timestamp)
            Py_INCREF(message)
            PyList_SET_ITEM(found, i - start, message)
        return found

    # Buffers that Arrow uses without another copy

    def offsets_buffer(self):
        """int64 per record."""
        return self.memories[0]

    def timestamps_buffer(self):
        """int64 per record, in ms."""
        return self.memories[1]

    def timestamp_types_buffer(self):
        """int32 per record."""
        return self.memories[2]

    def leader_epochs_buffer(self):
        """int32 per record."""
        return self.memories[3]

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

    def binary_column(self, bint values, int64_t start, int64_t stop):
        """Values (or keys) of ``[start, stop)`` as (int32 offsets, data, validity bitmap or None, number of nulls).

        None = nothing but nulls.
        """
        cdef int32_t *positions = self.cells.values if values else self.cells.keys
        cdef int32_t *sizes = self.cells.value_sizes if values else self.cells.key_sizes
        return gather(self.origin, positions + start, sizes + start, stop - start)

    def header_columns(self, int64_t start, int64_t stop):
        """Headers of ``[start, stop)`` as (int32 list offsets, their number, names, values); None = none.

        Names and values are as from ``binary_column``.
        """
        cdef int64_t total = 0, i, count, size = 0, n = 0
        cdef const uint8_t *at
        cdef const uint8_t *end = self.origin_end
        with nogil:
            for i in range(start, stop):
                total += self.cells.header_counts[i]
        if not total:
            return None
        cdef Memory lists = memory_of((stop - start + 1) * 4)
        cdef Memory scratch = memory_of(total * 16)
        cdef int32_t *list_offsets = <int32_t *>lists.data
        cdef int32_t *names = <int32_t *>scratch.data
        cdef int32_t *name_sizes = names + total
        cdef int32_t *values = names + 2 * total
        cdef int32_t *value_sizes = names + 3 * total
        with nogil:
            for i in range(start, stop):
                list_offsets[i - start] = <int32_t>n
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
            list_offsets[stop - start] = <int32_t>n
        return (lists, total, gather(self.origin, names, name_sizes, total),
                gather(self.origin, values, value_sizes, total))


cdef inline void put(tuple arguments, Py_ssize_t index, object value):
    """Sets an item of a tuple to which no other code has a reference."""
    cdef PyObject *before = (<PyTupleObject *>arguments).ob_item[index]
    Py_INCREF(value)
    (<PyTupleObject *>arguments).ob_item[index] = <PyObject *>value
    Py_XDECREF(before)


cdef object gather(const uint8_t *origin, const int32_t *positions, const int32_t *sizes, int64_t length):
    """Copies slices of ``origin`` into Arrow's binary layout; None if all are null."""
    cdef int64_t total = 0, nulls = 0, i, at = 0
    with nogil:
        for i in range(length):
            total += sizes[i] if sizes[i] > 0 else 0
            nulls += sizes[i] < 0
    if nulls == length:
        return None
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
                krm_copy(data.data + at, origin + positions[i], sizes[i])
                at += sizes[i]
            elif sizes[i] < 0:
                bits[i >> 3] &= ~(1 << (i & 7))
        ends[length] = <int32_t>at
    return offsets, data, validity, nulls
