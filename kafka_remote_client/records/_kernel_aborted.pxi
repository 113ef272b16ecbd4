# Part of _kernel.pyx: the read_committed filter, the twin of aborted.py.


cdef int64_t MIN_OFFSET = -9223372036854775807 - 1


def order_of(entry):
    return entry.first_offset, entry.producer_id


cdef class AbortedTransactionFilter:
    """``aborted.AbortedTransactionFilter`` over arrays: the list sorted by first offset, and a flag for each producer in it."""

    cdef readonly tuple entries
    cdef Memory memory
    cdef int64_t *first_offsets
    cdef int64_t *owners  # the index in ``producers`` of each transaction's producer
    cdef int64_t *producers  # ascending
    cdef int64_t *active  # 1 = an aborted transaction of the producer is open
    cdef int64_t *saved  # a copy of ``active``, then ``begun`` and ``active_count``
    cdef int64_t count
    cdef int64_t begun
    cdef int64_t producer_count
    cdef int64_t active_count
    cdef int64_t near  # the index found last: the marker behind a batch has the same producer

    def __cinit__(self, aborted_transactions):
        cdef int64_t i
        cdef dict places = {}
        self.entries = tuple(aborted_transactions)
        self.count = len(self.entries)
        self.begun = self.active_count = self.near = 0
        self.memory = memory_of((5 * self.count + 2) * sizeof(int64_t))
        self.first_offsets = <int64_t *>self.memory.data
        self.owners = self.first_offsets + self.count
        self.producers = self.owners + self.count
        self.active = self.producers + self.count
        self.saved = self.active + self.count
        if not self.fill(self.entries, places):
            self.fill(tuple(sorted(self.entries, key=order_of)), places)
        self.producer_count = len(places)
        # Here ``active`` maps the order in which producers appear to their index in ``producers``.
        for i, producer in enumerate(sorted(places)):
            self.producers[i], self.active[<int64_t>places[producer]] = producer, i
        for i in range(self.count):
            self.owners[i] = self.active[self.owners[i]]
        memset(self.active, 0, self.count * sizeof(int64_t))

    cdef bint fill(self, tuple entries, dict places) except -1:
        """Stores first offsets, and numbers producers in the order in which they appear. Returns whether the offsets rise."""
        cdef int64_t i = 0, last = MIN_OFFSET, first_offset
        cdef bint rise = True
        for entry in entries:
            first_offset = entry.first_offset
            rise = rise and last <= first_offset
            self.first_offsets[i] = last = first_offset
            self.owners[i] = places.setdefault(entry.producer_id, len(places))
            i += 1
        return rise

    def drops(self, header, *, bint is_abort_marker):
        """Advances the state by one batch of a producer. Returns whether the batch belongs to an aborted transaction."""
        cdef Batch batch
        batch.last_offset, batch.producer_id, batch.attributes = header.last_offset, header.producer_id, header.attributes
        return self.dropped(&batch, is_abort_marker)

    cdef bint changes(self, Batch *batch, bint is_abort_marker) noexcept nogil:
        """Whether the batch would change the state."""
        if self.begun < self.count and self.first_offsets[self.begun] <= batch.last_offset:
            return True
        return is_abort_marker and self.is_active(batch.producer_id)

    cdef void save(self) noexcept nogil:
        memcpy(self.saved, self.active, self.producer_count * sizeof(int64_t))
        self.saved[self.producer_count] = self.begun
        self.saved[self.producer_count + 1] = self.active_count

    cdef void restore(self) noexcept nogil:
        memcpy(self.active, self.saved, self.producer_count * sizeof(int64_t))
        self.begun = self.saved[self.producer_count]
        self.active_count = self.saved[self.producer_count + 1]

    cdef bint dropped(self, Batch *batch, bint is_abort_marker) noexcept nogil:
        cdef int64_t place
        while self.begun < self.count and self.first_offsets[self.begun] <= batch.last_offset:
            place = self.near = self.owners[self.begun]
            self.active_count += 1 - self.active[place]
            self.active[place] = 1
            self.begun += 1
        if is_abort_marker:
            if self.is_active(batch.producer_id):
                self.active[self.place_of(batch.producer_id)] = 0
                self.active_count -= 1
            return False
        return (batch.attributes & TRANSACTIONAL) != 0 and self.is_active(batch.producer_id)

    cdef bint is_active(self, int64_t producer_id) noexcept nogil:
        cdef int64_t place
        if self.active_count == 0:
            return False
        place = self.place_of(producer_id)
        return place < self.producer_count and self.producers[place] == producer_id and self.active[place] == 1

    cdef int64_t place_of(self, int64_t producer_id) noexcept nogil:
        """Returns the index of the first producer that is not below ``producer_id``."""
        cdef int64_t low = 0, high = self.producer_count, middle
        if self.near < high and self.producers[self.near] == producer_id:
            return self.near
        while low < high:
            middle = (low + high) // 2
            if self.producers[middle] < producer_id:
                low = middle + 1
            else:
                high = middle
        self.near = low
        return low
