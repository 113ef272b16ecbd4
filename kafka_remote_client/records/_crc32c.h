/* CRC-32C (Castagnoli) without the interpreter's lock, for the compiled kernel.
 *
 * x86-64 with SSE 4.2: three streams of the crc32 instruction, because one waits three cycles for its own result; the
 * streams are joined by a table that advances a checksum over a block of zeros. 64-bit Arm with the CRC extension: one
 * stream. Everything else: eight tables, eight bytes a step.
 *
 * References: RFC 3720 appendix B.4 (polynomial and check values).
 */
#ifndef KAFKA_REMOTE_CLIENT_CRC32C_H
#define KAFKA_REMOTE_CLIENT_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define KRC_POLYNOMIAL 0x82f63b78u /* bit-reversed 0x1edc6f41 */
#define KRC_LONG 2048
#define KRC_SHORT 256
#define KRC_AHEAD (3 * KRC_LONG) /* three short streams are too much for the processor's own guesses at what comes next */

static uint32_t krc_bytes[8][256];
static uint32_t krc_over_long[4][256];
static uint32_t krc_over_short[4][256];
static int krc_hardware;

/* a * b modulo the polynomial; bit 31 is the constant term */
static uint32_t krc_multiply(uint32_t a, uint32_t b) {
    uint32_t product = 0;
    for (uint32_t bit = 1u << 31; bit; bit >>= 1) {
        if (a & bit) product ^= b;
        b = b & 1 ? (b >> 1) ^ KRC_POLYNOMIAL : b >> 1;
    }
    return product;
}

static void krc_fill_shift(uint32_t table[4][256], size_t zeros) {
    uint32_t power = 1u << 31, square = 1u << 23; /* x^0, x^8 */
    for (; zeros; zeros >>= 1) {
        if (zeros & 1) power = krc_multiply(power, square);
        square = krc_multiply(square, square);
    }
    for (uint32_t lane = 0; lane < 4; lane++)
        for (uint32_t value = 0; value < 256; value++) table[lane][value] = krc_multiply(value << (8 * lane), power);
}

static inline uint32_t krc_shift(uint32_t table[4][256], uint32_t crc) {
    return table[0][crc & 255] ^ table[1][crc >> 8 & 255] ^ table[2][crc >> 16 & 255] ^ table[3][crc >> 24];
}

static uint32_t krc_by_tables(uint32_t crc, const uint8_t *data, size_t size) {
    for (; size >= 8; data += 8, size -= 8) {
        crc ^= (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
        crc = krc_bytes[7][crc & 255] ^ krc_bytes[6][crc >> 8 & 255] ^ krc_bytes[5][crc >> 16 & 255] ^ krc_bytes[4][crc >> 24] ^
              krc_bytes[3][data[4]] ^ krc_bytes[2][data[5]] ^ krc_bytes[1][data[6]] ^ krc_bytes[0][data[7]];
    }
    while (size--) crc = crc >> 8 ^ krc_bytes[0][(crc ^ *data++) & 255];
    return crc;
}

#if defined(__GNUC__) && defined(__x86_64__)
#define KRC_HARDWARE_PRESENT() __builtin_cpu_supports("sse4.2")

static inline uint64_t krc_load(const uint8_t *data) {
    uint64_t word;
    memcpy(&word, data, 8);
    return word;
}

__attribute__((target("sse4.2"))) static uint32_t krc_by_hardware(uint32_t start, const uint8_t *data, size_t size) {
    uint64_t first = start;
    while (size >= 3 * KRC_SHORT) {
        size_t block = size >= 3 * KRC_LONG ? KRC_LONG : KRC_SHORT;
        uint32_t(*table)[256] = block == KRC_LONG ? krc_over_long : krc_over_short;
        uint64_t second = 0, third = 0;
        for (size_t at = 0; at < block; at += 8) {
            if (at % 64 == 0)
                for (size_t stream = 0; stream < 3; stream++) __builtin_prefetch(data + stream * block + at + KRC_AHEAD);
            first = __builtin_ia32_crc32di(first, krc_load(data + at));
            second = __builtin_ia32_crc32di(second, krc_load(data + block + at));
            third = __builtin_ia32_crc32di(third, krc_load(data + 2 * block + at));
        }
        first = krc_shift(table, krc_shift(table, (uint32_t)first) ^ (uint32_t)second) ^ third;
        data += 3 * block;
        size -= 3 * block;
    }
    for (; size >= 8; data += 8, size -= 8) first = __builtin_ia32_crc32di(first, krc_load(data));
    while (size--) first = __builtin_ia32_crc32qi((uint32_t)first, *data++);
    return (uint32_t)first;
}
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#define KRC_HARDWARE_PRESENT() 1

static uint32_t krc_by_hardware(uint32_t crc, const uint8_t *data, size_t size) {
    for (; size >= 8; data += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        crc = __crc32cd(crc, word);
    }
    while (size--) crc = __crc32cb(crc, *data++);
    return crc;
}
#else
#define KRC_HARDWARE_PRESENT() 0
#define krc_by_hardware krc_by_tables
#endif

/* Must run once before the first checksum. */
static void krc_prepare(void) {
    for (uint32_t value = 0; value < 256; value++) {
        uint32_t crc = value;
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >> 1) ^ KRC_POLYNOMIAL : crc >> 1;
        krc_bytes[0][value] = crc;
    }
    for (int table = 1; table < 8; table++)
        for (int value = 0; value < 256; value++)
            krc_bytes[table][value] = krc_bytes[table - 1][value] >> 8 ^ krc_bytes[0][krc_bytes[table - 1][value] & 255];
    krc_fill_shift(krc_over_long, KRC_LONG);
    krc_fill_shift(krc_over_short, KRC_SHORT);
    krc_hardware = KRC_HARDWARE_PRESENT();
}

static uint32_t krc_checksum(const uint8_t *data, size_t size, int hardware) {
    return ~(hardware ? krc_by_hardware(~0u, data, size) : krc_by_tables(~0u, data, size));
}

#endif
