#define _GNU_SOURCE
#include "perf.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int omn_event_open(const struct omn_event *event, int pid, int cpu, int is_cgroup) {
    struct perf_event_attr attributes;
    unsigned long flags = PERF_FLAG_FD_CLOEXEC | (is_cgroup ? PERF_FLAG_PID_CGROUP : 0);
    long opened;

    memset(&attributes, 0, sizeof(attributes));
    attributes.size = sizeof(attributes);
    attributes.type = event->kind;
    attributes.config = event->config;
    attributes.config1 = event->config1;
    attributes.config2 = event->config2;
    attributes.read_format = event->read_format;
    attributes.disabled = (event->flags & OMN_EVENT_DISABLED) != 0;
    attributes.inherit = (event->flags & OMN_EVENT_INHERIT) != 0;
    attributes.enable_on_exec = (event->flags & OMN_EVENT_ENABLE_ON_EXEC) != 0;
    attributes.exclude_kernel = (event->flags & OMN_EVENT_EXCLUDE_KERNEL) != 0;
    attributes.exclude_hv = attributes.exclude_kernel;
    attributes.sample_type = event->sample_type;
    attributes.sample_period = event->sample_period;
    attributes.freq = (event->flags & OMN_EVENT_FREQUENCY) != 0;
    attributes.mmap = attributes.mmap2 = (event->flags & OMN_EVENT_RECORDS_MAPPINGS) != 0;
    attributes.comm = attributes.comm_exec = attributes.task = (event->flags & OMN_EVENT_RECORDS_TASKS) != 0;
    attributes.watermark = event->wakeup_bytes != 0;
    attributes.wakeup_watermark = event->wakeup_bytes;
    attributes.sample_max_stack = (uint16_t)event->max_stack;
    attributes.exclude_callchain_user = (event->flags & OMN_EVENT_EXCLUDE_USER_CHAIN) != 0;
    attributes.sample_regs_user = event->user_registers;
    attributes.sample_stack_user = event->user_stack_bytes;
    if (event->sample_type != 0) {
        attributes.sample_id_all = 1;
        attributes.use_clockid = 1;
        attributes.clockid = CLOCK_MONOTONIC;
    }
    attributes.build_id = attributes.mmap2;
    opened = syscall(SYS_perf_event_open, &attributes, pid, cpu, -1, flags);
    if (opened < 0 && errno == EINVAL && attributes.build_id) {
        attributes.build_id = 0; /* before Linux 5.12 a mapping's file is told by its inode alone */
        opened = syscall(SYS_perf_event_open, &attributes, pid, cpu, -1, flags);
    }
    return opened < 0 ? -errno : (int)opened;
}

int omn_events_read(const int *descriptors, size_t count, size_t words, uint64_t *values) {
    const size_t size = words * sizeof(*values);

    for (size_t index = 0; index < count; index++) {
        ssize_t got = read(descriptors[index], values + index * words, size);
        if (got < 0)
            return -errno;
        if ((size_t)got != size)
            return -EIO;
    }
    return 0;
}
