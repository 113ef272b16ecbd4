# Part of _kernel.pyx: hands out messages one by one, the twin of message_slice.py.


cdef class MessageSlice:
    """``message_slice.MessageSlice``; a critical section of the slice, or the interpreter's lock, makes each call atomic."""

    cdef list held
    cdef Py_ssize_t handed
    cdef Py_ssize_t end
    cdef bint waits

    def __init__(self):
        self.held = []
        self.handed = self.end = 0
        self.waits = False

    @property
    def messages(self):
        """All messages of the slice."""
        with cython.critical_section(self):
            return self.held

    @property
    def taken(self):
        """The number of messages that were delivered."""
        with cython.critical_section(self):
            return self.handed

    @property
    def due(self):
        """Whether the owner needs control before the next message."""
        with cython.critical_section(self):
            return self.waits

    @due.setter
    def due(self, bint due):
        with cython.critical_section(self):
            self.waits = due

    def begin(self, list messages):
        """Replaces the slice. The caller must not change the list afterwards."""
        with cython.critical_section(self):
            self.held, self.handed, self.end = messages, 0, len(messages)

    def stop(self):
        """Returns the messages that are left, in order, and ends the slice before them."""
        with cython.critical_section(self):
            waiting = self.held[self.handed:self.end]
            self.held, self.end = self.held[:self.handed], self.handed
            return waiting

    cpdef take(self):
        """Returns the next message; None if none is left."""
        with cython.critical_section(self):
            if self.handed == self.end:
                return None
            message = self.held[self.handed]
            self.handed += 1
            return message


def slice_poll(str queue, str slowly):
    """``message_slice.slice_poll``."""

    def poll(self, timeout=-1):
        """As confluent_kafka's, from both tiers in turn. Raises TypeError for a time that is no real number."""
        cdef double seconds = timeout
        cdef MessageSlice handed_out = getattr(self, queue)
        with cython.critical_section(handed_out):
            if not handed_out.waits and handed_out.handed < handed_out.end:
                message = handed_out.held[handed_out.handed]
                handed_out.handed += 1
                return message
        return getattr(self, slowly)(seconds)

    return poll
