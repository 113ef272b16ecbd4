# Part of _kernel.pyx: hands out messages one by one, the twin of message_slice.py.


cdef class MessageSlice:
    """``message_slice.MessageSlice``; the interpreter's lock makes each call atomic."""

    cdef readonly list messages
    cdef readonly Py_ssize_t taken
    cdef public bint due
    cdef Py_ssize_t end

    def __init__(self):
        self.messages = []
        self.taken = self.end = 0
        self.due = False

    def begin(self, list messages):
        """Replaces the slice. The caller must not change the list afterwards."""
        self.messages, self.taken, self.end = messages, 0, len(messages)

    def stop(self):
        """Returns the messages that are left, in order, and ends the slice before them."""
        waiting = self.messages[self.taken:self.end]
        self.messages, self.end = self.messages[:self.taken], self.taken
        return waiting

    cpdef take(self):
        """Returns the next message; None if none is left."""
        if self.taken == self.end:
            return None
        message = self.messages[self.taken]
        self.taken += 1
        return message


def slice_poll(str queue, str slowly):
    """``message_slice.slice_poll``."""

    def poll(self, timeout=-1):
        """As confluent_kafka's, from both tiers in turn. Raises TypeError for a time that is no real number."""
        cdef double seconds = timeout
        cdef MessageSlice handed_out = getattr(self, queue)
        if not handed_out.due and handed_out.taken < handed_out.end:
            message = handed_out.messages[handed_out.taken]
            handed_out.taken += 1
            return message
        return getattr(self, slowly)(seconds)

    return poll
