/* perf records, taken apart in columns: samples in arrays, the rest by where they stand. */

#ifndef OMN_RECORDS_H
#define OMN_RECORDS_H

#include <stddef.h>
#include <stdint.h>

/* The fields that every sample must have. Those it has where it was asked for them stand where the kernel's order has
   them: the address that was accessed and the number of the stream before the cpu, the others at the end. */
#define OMN_SAMPLE_TYPE (PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU)
#define OMN_PERIODS 1u
#define OMN_CHAINS 2u
#define OMN_ACCESSES 4u
#define OMN_STREAMS 8u
#define OMN_USER_REGISTERS 16u
#define OMN_USER_STACKS 32u

/* Registers that a sample takes of the program, in DWARF's numbers: its return address is where the program was. None
   are asked for where the processor is not x86-64. */
#define OMN_REGISTER_COUNT 17u
#if defined(__x86_64__)
#define OMN_REGISTER_MASK 0xff01ffull /* PERF_REG_X86_AX to PERF_REG_X86_IP, PERF_REG_X86_R8 to PERF_REG_X86_R15 */
#else
#define OMN_REGISTER_MASK 0ull
#endif

/* How much there is in some bytes: samples, addresses of their chains, and other records; and the bytes that held whole
   records, less than were given where what follows is none. */
struct omn_record_counts {
    uint64_t samples;
    uint64_t addresses;
    uint64_t others;
    uint64_t stack_bytes;
    uint64_t bytes;
};

/* A column of each field, as long as there are samples; a period that was not asked for is zero, `accessed` and `stream`
   may then be empty. chain_ends counts the addresses up to the end of each sample's chain, kernel_frames those at its
   beginning that are the kernel's. registers has a row of OMN_REGISTER_COUNT for each sample, zeros for one that has none
   or those of a 32-bit program; stack_ends counts the bytes of stacks up to the end of each sample's, which is as much as
   was there to be copied. */
struct omn_samples {
    uint64_t *ip;
    int32_t *pid;
    int32_t *tid;
    uint64_t *time;
    uint32_t *cpu;
    uint64_t *period;
    uint64_t *accessed;
    uint64_t *stream;
    uint64_t *chain_ends;
    uint32_t *kernel_frames;
    uint64_t *addresses;
    uint64_t *registers;
    uint64_t *stack_ends;
    uint8_t *stacks;
};

/* Count what stands in some bytes. parts says what else the samples were asked for. */
void omn_records_count(const uint8_t *data, uint64_t length, uint32_t parts, struct omn_record_counts *counts);

/* Fill the columns, and `others` with where each record stands that is no sample. */
void omn_records_decode(const uint8_t *data, uint64_t length, uint32_t parts, struct omn_samples *samples,
                        uint64_t *others);

#endif
