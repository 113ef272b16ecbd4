# Part of _kernel.pyx: the pass over records, the twin of record.py.


cdef struct Cells:
    int64_t *offsets
    int64_t *timestamps
    int32_t *timestamp_types
    int32_t *epochs
    int32_t *keys
    int32_t *key_sizes
    int32_t *values
    int32_t *value_sizes
    int32_t *headers
    int32_t *header_counts


cdef inline const uint8_t *read_base128(const uint8_t *at, const uint8_t *end, int bits, uint64_t *value) noexcept nogil:
    """Returns the position after the number; NULL if the number does not end before ``end`` and within ``bits`` bits."""
    cdef uint64_t result = 0
    cdef int shift = 0
    while at < end and shift < bits:
        result |= <uint64_t>(at[0] & 0x7F) << shift
        if at[0] < 0x80:
            value[0] = result
            return at + 1
        at += 1
        shift += 7
    return NULL


cdef inline const uint8_t *read_varint(const uint8_t *at, const uint8_t *end, int64_t *value) noexcept nogil:
    cdef uint64_t raw
    if at < end and at[0] < 0x80:
        value[0] = (at[0] >> 1) ^ -<int64_t>(at[0] & 1)
        return at + 1
    if end - at > 1 and at[1] < 0x80:
        raw = (at[0] & 0x7F) | (<uint64_t>at[1] << 7)
        value[0] = <int64_t>(raw >> 1) ^ -<int64_t>(raw & 1)
        return at + 2
    at = read_base128(at, end, 35, &raw)
    if at != NULL:
        value[0] = <int32_t>((<uint32_t>raw >> 1) ^ (<uint32_t>0 - (<uint32_t>raw & 1)))
    return at


cdef int skip_headers(const uint8_t *at, const uint8_t *end, int64_t count) noexcept nogil:
    cdef int64_t size
    while count:
        at = read_varint(at, end, &size)
        if at == NULL:
            return VARINT
        if not 0 <= size <= end - at:
            return HEADERS
        at = read_varint(at + size, end, &size)
        if at == NULL:
            return VARINT
        if not -1 <= size <= end - at:
            return HEADERS
        if size > 0:
            at += size
        count -= 1
    return NONE if at == end else BODY_SIZE


cdef int read_records(
    const uint8_t *origin, Batch *batch, int64_t fetch_offset, int64_t end_offset, Cells *cells, int64_t *length,
) noexcept nogil:
    """Reads the records of one batch into the cells from ``length`` on. The cells have room for all of them."""
    cdef const uint8_t *at = origin + batch.records_start
    cdef const uint8_t *end = origin + batch.records_stop
    cdef const uint8_t *record_end
    cdef const uint8_t *key
    cdef int64_t size, offset_delta, key_size, value_size, header_count, offset
    cdef int64_t last_delta = -1, most = batch.last_offset - batch.base_offset
    cdef int64_t n = length[0]
    cdef uint64_t raw
    cdef int32_t i, fault
    cdef int32_t timestamp_type = -1 if batch.magic == 0 else (batch.attributes & LOG_APPEND_TIME) != 0
    for i in range(batch.record_count):
        at = read_varint(at, end, &size)
        if at == NULL:
            return VARINT
        if not MINIMAL_RECORD - 1 <= size <= end - at:
            return RECORD_SIZE
        record_end = at + size
        at += 1
        if at[0] < 0x80:  # still inside the record: see MINIMAL_RECORD
            raw = at[0]
            at += 1
        else:
            at = read_base128(at, record_end, 70, &raw)
            if at == NULL:
                return VARINT
        at = read_varint(at, record_end, &offset_delta)
        if at == NULL:
            return VARINT
        key = read_varint(at, record_end, &key_size)
        if key == NULL:
            return VARINT
        if not -1 <= key_size <= record_end - key:
            return KEY_SIZE
        at = read_varint(key + key_size if key_size > 0 else key, record_end, &value_size)
        if at == NULL:
            return VARINT
        if not -1 <= value_size <= record_end - at:
            return VALUE_SIZE
        cells.values[n] = <int32_t>(at - origin)
        if value_size > 0:
            at += value_size
        at = read_varint(at, record_end, &header_count)
        if at == NULL:
            return VARINT
        if not 0 <= header_count <= record_end - at:
            return HEADERS
        if header_count or at != record_end:
            fault = skip_headers(at, record_end, header_count)
            if fault:
                return fault
        if not last_delta < offset_delta <= most:
            return OFFSET_DELTA
        last_delta = offset_delta
        offset = batch.base_offset + offset_delta
        cells.offsets[n] = offset
        if timestamp_type == 1:
            cells.timestamps[n] = batch.max_timestamp
        else:
            cells.timestamps[n] = <int64_t>(<uint64_t>batch.base_timestamp + ((raw >> 1) ^ (<uint64_t>0 - (raw & 1))))
        cells.timestamp_types[n] = timestamp_type
        cells.epochs[n] = batch.leader_epoch
        cells.keys[n] = <int32_t>(key - origin)
        cells.key_sizes[n] = <int32_t>key_size
        cells.value_sizes[n] = <int32_t>value_size
        cells.headers[n] = <int32_t>(at - origin)
        cells.header_counts[n] = <int32_t>header_count
        n += fetch_offset <= offset < end_offset
        at = record_end
    if at != end:
        return TRAILING_BYTES
    length[0] = n
    return NONE
