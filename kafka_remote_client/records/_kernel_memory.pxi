# Part of _kernel.pyx: memory for columns and decompressed batches.

# The kernel keeps large pieces for the next block: page faults in fresh memory cost more time than decoding into it.
# All functions here run under the interpreter's lock or, in a free-threaded one, in a critical section of ``shared``.
cdef enum:
    SPARE_PIECES = 32
    SPARE_LEAST = 1 << 18
    SPARE_MOST = 1 << 26

cdef object shared = object()
cdef uint8_t *spare[SPARE_PIECES]
cdef int64_t spare_sizes[SPARE_PIECES]
cdef int spare_count = 0
cdef int64_t spare_total = 0


cdef void give(uint8_t *data, int64_t capacity) noexcept:
    """Frees a piece, or keeps it and frees those kept longest to make room."""
    global spare_count, spare_total
    if not SPARE_LEAST <= capacity <= SPARE_MOST:
        free(data)
        return
    with cython.critical_section(shared):
        while spare_count == SPARE_PIECES or spare_total + capacity > SPARE_MOST:
            free(spare[0])
            forget(0)
        spare[spare_count], spare_sizes[spare_count] = data, capacity
        spare_count += 1
        spare_total += capacity


cdef void forget(int index) noexcept:
    global spare_count, spare_total
    spare_count -= 1
    spare_total -= spare_sizes[index]
    for index in range(index, spare_count):
        spare[index], spare_sizes[index] = spare[index + 1], spare_sizes[index + 1]


cdef uint8_t *take(int64_t *capacity) noexcept:
    """Returns the smallest kept piece of at least ``capacity`` bytes, and at most four times that; NULL if there is none."""
    cdef int i, best = -1
    cdef uint8_t *found = NULL
    with cython.critical_section(shared):
        for i in range(spare_count):
            if capacity[0] <= spare_sizes[i] <= 4 * capacity[0] and (best < 0 or spare_sizes[i] < spare_sizes[best]):
                best = i
        if best >= 0:
            found, capacity[0] = spare[best], spare_sizes[best]
            forget(best)
    return found


cdef int64_t size_class(int64_t capacity) noexcept:
    """Rounds up to one of eight sizes between a power of two and the next.

    A piece can then be used again if slightly more is needed, for example when ranges of the same length hold more records.
    """
    cdef int64_t step = SPARE_LEAST // 8
    while step <= capacity // 16:
        step *= 2
    return (capacity + step - 1) // step * step


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
        """Makes room for ``capacity`` bytes, and keeps the contents."""
        cdef uint8_t *grown = NULL
        if capacity >= SPARE_LEAST:
            capacity = size_class(capacity)
            grown = take(&capacity)
        if grown == NULL:
            grown = <uint8_t *>krm_allocate(capacity)
        if grown == NULL:
            raise MemoryError
        if self.size:
            memcpy(grown, self.data, self.size)
        give(self.data, self.capacity)
        self.data, self.capacity = grown, capacity
        return 0

    cdef void shrink(self) noexcept:
        """Frees the unused part if it is more than half."""
        cdef void *fitted
        if self.size < self.capacity // 2 and self.size:
            fitted = realloc(self.data, self.size)
            if fitted != NULL:  # no test: a smaller piece is never refused
                self.data, self.capacity = <uint8_t *>fitted, self.size


cdef Memory memory_of(int64_t size):
    cdef Memory memory = Memory()
    memory.grow(size if size else 1)
    memory.size = size
    return memory


cdef class Arena:
    """``compression.Arena`` on the C heap. The caller must release a reservation before the next one: nothing checks that."""

    cdef Memory memory

    def __cinit__(self):
        self.memory = Memory()

    def reserve(self, int64_t size):
        """Returns ``size`` writable bytes after the bytes kept so far."""
        self.require(size)
        return PyMemoryView_FromMemory(<char *>self.memory.data + self.memory.size, size, PyBUF_WRITE)

    def keep(self, int64_t size):
        """Keeps the first ``size`` bytes of the last reservation."""
        self.memory.size += size

    cdef int require(self, int64_t size) except -1:
        cdef int64_t wanted = self.memory.size + size + 1  # never 0: a codec must not get a null pointer
        if wanted > self.memory.capacity:
            self.memory.grow(max(wanted, self.memory.capacity * 2))
        return 0
