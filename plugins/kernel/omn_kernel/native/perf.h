/* perf events: opened by plain fields, read many at a time. Calls return a descriptor or zero, or a negated errno. */

#ifndef OMN_PERF_H
#define OMN_PERF_H

#include <stddef.h>
#include <stdint.h>

#define OMN_EVENT_DISABLED 1u
#define OMN_EVENT_INHERIT 2u
#define OMN_EVENT_ENABLE_ON_EXEC 4u
#define OMN_EVENT_EXCLUDE_KERNEL 8u
#define OMN_EVENT_FREQUENCY 16u
#define OMN_EVENT_RECORDS_MAPPINGS 32u
#define OMN_EVENT_RECORDS_TASKS 64u
#define OMN_EVENT_EXCLUDE_USER_CHAIN 128u
/* PERF_FORMAT_LOST, which headers before Linux 6.0 do not name. */
#define OMN_FORMAT_LOST 16u

/* What struct perf_event_attr holds in bit fields and unions, in fields of their own. config1 and config2 are the
   event's own (for a uprobe: path and offset). sample_period is a frequency where the flag says so. Records are
   stamped with CLOCK_MONOTONIC, and those that are no samples carry the sample's fields too. */
struct omn_event {
    uint32_t kind;
    uint32_t flags;
    uint64_t config;
    uint64_t config1;
    uint64_t config2;
    uint64_t read_format;
    uint64_t sample_period;
    uint64_t sample_type;
    uint32_t wakeup_bytes;
    uint32_t max_stack;
    uint64_t user_registers;
    uint32_t user_stack_bytes;
};

/* Open an event of a task (cpu -1), of a cpu (pid -1), or of a cgroup on a cpu (pid its folder's descriptor). */
int omn_event_open(const struct omn_event *event, int pid, int cpu, int is_cgroup);

/* Read so many events into `words` values each, in order; each was opened to be read as that many. */
int omn_events_read(const int *descriptors, size_t count, size_t words, uint64_t *values);

#endif
