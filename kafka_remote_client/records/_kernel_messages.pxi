# Part of _kernel.pyx: messages as copies of a message from the constructor; see message_layout.py.

cdef struct Layout:
    Py_ssize_t words  # 0 = not known
    Py_ssize_t topic
    Py_ssize_t offset
    Py_ssize_t key
    Py_ssize_t value
    Py_ssize_t headers
    Py_ssize_t error
    Py_ssize_t timestamp
    uint64_t no_key
    uint64_t no_value
    uint64_t no_headers

cdef Layout layout  # threads read it without a lock: only the import and tests write it


cdef inline uint64_t *words_of(object message) noexcept:
    return <uint64_t *>(<uint8_t *><PyObject *>message + sizeof(PyObject))


def message_image(message):
    """Returns a message as machine words, without the head that all objects have."""
    cdef Py_ssize_t i
    return [words_of(message)[i] for i in range((type(message).__basicsize__ - sizeof(PyObject)) // sizeof(uint64_t))]


def use_message_layout(found):
    """Makes further messages as copies, by a ``message_layout.MessageLayout``; None = by the constructor."""
    layout.words = 0
    if found is not None:
        layout.topic, layout.offset, layout.timestamp = found.topic, found.offset, found.timestamp
        layout.key, layout.value, layout.headers, layout.error = found.key, found.value, found.headers, found.error
        layout.no_key, layout.no_value, layout.no_headers = found.no_key, found.no_value, found.no_headers
        layout.words = found.words


cdef inline void refer(uint64_t *word, object found, uint64_t absent) noexcept:
    """Stores a reference in a word that owns no object yet."""
    word[0] = absent if found is None else <uint64_t><PyObject *>found
    Py_XINCREF(<PyObject *>word[0])


cdef object copied(object pattern, int64_t offset, object key, object value, object headers, int64_t timestamp):
    """Returns a copy of ``pattern`` with these values. No Python code runs between the copy and the last reference."""
    cdef object made = (<PyTypeObject *>Message).tp_alloc(<PyTypeObject *>Message, 0)
    cdef uint64_t *words = words_of(made)
    memcpy(words, words_of(pattern), layout.words * sizeof(uint64_t))
    words[layout.offset], words[layout.timestamp] = <uint64_t>offset, <uint64_t>timestamp
    refer(words + layout.key, key, layout.no_key)
    refer(words + layout.value, value, layout.no_value)
    refer(words + layout.headers, headers, layout.no_headers)
    Py_XINCREF(<PyObject *>words[layout.topic])
    Py_XINCREF(<PyObject *>words[layout.error])
    return made


use_message_layout(layout_in_use(Message, message_image))
