/* Memory for large pieces, and copies between them.
 *
 * Huge pages where the system gives them on request (Linux): hundreds of page faults less per piece, which would also make
 * threads wait for each other.
 */
#ifndef KAFKA_REMOTE_CLIENT_MEMORY_H
#define KAFKA_REMOTE_CLIENT_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __linux__
#include <sys/mman.h>
#endif

#define KRM_HUGE ((size_t)1 << 21)
#define KRM_AHEAD 4096
#define KRM_LINE 64

/* Has the processor begin to load memory that is read soon; no address is an error. */
static inline void krm_expect(const void *address) {
#if defined(__GNUC__) || defined(__clang__)
    __builtin_prefetch(address);
#else
    (void)address;
#endif
}

/* As malloc; free() lets go of it, realloc() may move it. */
static void *krm_allocate(size_t size) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    void *piece;
    if (size >= 2 * KRM_HUGE && posix_memalign(&piece, KRM_HUGE, size) == 0) {
        madvise(piece, size & ~(KRM_HUGE - 1), MADV_HUGEPAGE); /* advice only: without it all works as well */
        return piece;
    }
#endif
    return malloc(size);
}

/* One piece of many that are copied from near each other to side by side: asks for what comes next meanwhile. */
static inline void krm_copy(uint8_t *to, const uint8_t *from, size_t size) {
    for (size_t at = 0; at < size; at += KRM_LINE) {
        __builtin_prefetch(from + at + KRM_AHEAD);
        __builtin_prefetch(to + at + KRM_AHEAD, 1);
    }
    memcpy(to, from, size);
}

#endif
