/* Walking copied user stacks by .eh_frame and .debug_frame, on x86-64. Nothing here trusts a byte that it reads. */

#ifndef OMN_UNWIND_H
#define OMN_UNWIND_H

#include <stdint.h>

/* Registers as DWARF numbers them on x86-64: 6 is rbp, 7 rsp, 16 the return address. */
#define OMN_REGISTERS 17u

/* Why a walk ended. */
#define OMN_ROOT 0u        /* the outermost frame says that it has no caller */
#define OMN_STACK_END 1u   /* what it needs was not copied */
#define OMN_NO_TABLE 2u    /* the code has no unwind information */
#define OMN_BAD_TABLE 3u   /* its unwind information cannot be followed */
#define OMN_TOO_DEEP 4u    /* as many frames as were asked for */

/* One object's .eh_frame, its address as the object counts it, and its entries sorted by the code they are of. From
 * debug_at on the content is a .debug_frame. */
struct omn_frame_table {
    const uint8_t *content;
    uint64_t size;
    uint64_t address;
    uint64_t debug_at;
    const uint64_t *starts;
    const uint64_t *ends;
    const uint64_t *entries;
    uint64_t count;
};

/* Where an object stands in memory: addresses less the bias are the object's. table is an index, or negative; entry is
 * where it begins to run, 0 for none. */
struct omn_frame_range {
    uint64_t start;
    uint64_t end;
    uint64_t bias;
    int64_t table;
    uint64_t entry;
};

/* List the entries of an .eh_frame, or from debug_at on of a .debug_frame; return how many there are, of which at most
 * capacity are written. */
uint64_t omn_list_frames(const uint8_t *content, uint64_t size, uint64_t address, uint64_t debug_at, uint64_t *starts,
                         uint64_t *ends, uint64_t *entries, uint64_t capacity);

/* Walk stacks: a row of registers for each sample, and where the bytes that were copied of it from rsp on begin and end
 * in one buffer. lengths tells how many of each one's capacity of addresses were written, innermost first; exact tells
 * those that are of the next instruction rather than of the one after a call. */
void omn_unwind_many(const struct omn_frame_table *tables, const struct omn_frame_range *ranges, uint64_t range_count,
                     uint64_t count, const uint64_t *registers, const uint8_t *stacks, const uint64_t *stack_starts,
                     const uint64_t *stack_ends, uint64_t *addresses, uint8_t *exact, uint32_t capacity,
                     uint32_t *lengths, uint8_t *reasons);

/* What a walk by frame pointers makes of where a sample was taken. */
#define OMN_FRAMED 0u    /* the code there has set its frame pointer up: its caller is found by it */
#define OMN_FRAMELESS 1u /* it has not, and the frame pointer is its caller's own still: its caller is passed over */
#define OMN_CLOBBERED 2u /* it has not, and holds something else where the frame pointer was */
#define OMN_UNKNOWN 3u   /* its caller cannot be told */

/* Find the caller of the code that each sample was taken at, and which of these it is; no caller is 0. */
void omn_find_callers(const struct omn_frame_table *tables, const struct omn_frame_range *ranges, uint64_t range_count,
                      uint64_t count, const uint64_t *registers, const uint8_t *stacks, const uint64_t *stack_starts,
                      const uint64_t *stack_ends, uint64_t *callers, uint8_t *kinds);

#endif
