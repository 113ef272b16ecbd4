# Part of _kernel.pyx: the read_committed filter, the twin of aborted.py.


cdef class AbortedTransactionFilter:
    """``aborted.AbortedTransactionFilter`` over arrays: the list sorted by first offset, and a flag for each producer in it."""

    cdef readonly tuple entries
    cdef Memory memory
    cdef int64_t *first_offsets
    cdef int64_t *owners  # of each transaction its producer's place in ``producers``
    cdef int64_t *producers  # rising
    cdef int64_t *active  # 1 = an aborted transaction of the producer is going on
    cdef int64_t count
    cdef int64_t begun
    cdef int64_t producer_count
    cdef int64_t active_count

    def __cinit__(self, aborted_transactions):
        cdef int64_t i
        self.entries = tuple(aborted_transactions)
        pending = sorted([(entry.first_offset, entry.producer_id) for entry in self.entries])
        producers = sorted({producer for _, producer in pending})
        places = {producer: place for place, producer in enumerate(producers)}
        self.count, self.producer_count = len(pending), len(producers)
        self.begun = self.active_count = 0
        self.memory = memory_of(2 * (self.count + self.producer_count) * sizeof(int64_t))
        self.first_offsets = <int64_t *>self.memory.data
        self.owners = self.first_offsets + self.count
        self.producers = self.owners + self.count
        self.active = self.producers + self.producer_count
        for i in range(self.count):
            self.first_offsets[i], self.owners[i] = pending[i][0], places[pending[i][1]]
        for i in range(self.producer_count):
            self.producers[i], self.active[i] = producers[i], 0

    def drops(self, header, *, bint is_abort_marker):
        """Advances the state by one batch of a producer; True = it belongs to an aborted transaction."""
        cdef Batch batch
        batch.last_offset, batch.producer_id, batch.attributes = header.last_offset, header.producer_id, header.attributes
        return self.dropped(&batch, is_abort_marker)

    cdef bint changes(self, Batch *batch, bint is_abort_marker) noexcept nogil:
        """Whether the batch would change the state."""
        if self.begun < self.count and self.first_offsets[self.begun] <= batch.last_offset:
            return True
        return is_abort_marker and self.is_active(batch.producer_id)

    cdef bint dropped(self, Batch *batch, bint is_abort_marker) noexcept nogil:
        cdef int64_t place
        while self.begun < self.count and self.first_offsets[self.begun] <= batch.last_offset:
            place = self.owners[self.begun]
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
        """The place of the first producer that is not below ``producer_id``."""
        cdef int64_t low = 0, high = self.producer_count, middle
        while low < high:
            middle = (low + high) // 2
            if self.producers[middle] < producer_id:
                low = middle + 1
            else:
                high = middle
        return low
