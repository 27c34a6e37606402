#define _GNU_SOURCE
#include "calls.h"

#include <errno.h>
#include <linux/bpf.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int result_of(long returned) { return returned < 0 ? -errno : (int)returned; }

int omn_bpf(int command, void *attributes, uint32_t size) { return result_of(syscall(SYS_bpf, command, attributes, size)); }

int omn_bpf_raw_tracepoint_open(const char *name, int program) {
    union bpf_attr attributes;

    memset(&attributes, 0, sizeof(attributes));
    attributes.raw_tracepoint.name = (uintptr_t)name;
    attributes.raw_tracepoint.prog_fd = (uint32_t)program;
    return omn_bpf(BPF_RAW_TRACEPOINT_OPEN, &attributes, sizeof(attributes));
}

int omn_bpf_run_on(int program, uint32_t cpu) {
    union bpf_attr attributes;

    memset(&attributes, 0, sizeof(attributes));
    attributes.test.prog_fd = (uint32_t)program;
    attributes.test.flags = BPF_F_TEST_RUN_ON_CPU;
    attributes.test.cpu = cpu;
    return omn_bpf(BPF_PROG_TEST_RUN, &attributes, sizeof(attributes));
}

int omn_bpf_link_create(int program, int target, uint32_t attach_type) {
    union bpf_attr attributes;

    memset(&attributes, 0, sizeof(attributes));
    attributes.link_create.prog_fd = (uint32_t)program;
    attributes.link_create.target_fd = (uint32_t)target;
    attributes.link_create.attach_type = attach_type;
    return omn_bpf(BPF_LINK_CREATE, &attributes, sizeof(attributes));
}

/* What stands in link_create after its flags for uprobe_multi (Linux 6.6); older headers have no name for it. */
struct uprobe_multi_part {
    uint64_t path;
    uint64_t offsets;
    uint64_t reference_offsets;
    uint64_t cookies;
    uint32_t count;
    uint32_t flags;
    uint32_t pid;
    uint32_t unused;
};

int omn_bpf_uprobe_multi_link(const char *path, int program, const struct omn_bpf_places *places) {
    struct {
        uint32_t program;
        uint32_t target;
        uint32_t attach_type;
        uint32_t flags;
        struct uprobe_multi_part part;
    } attributes;

    memset(&attributes, 0, sizeof(attributes));
    attributes.program = (uint32_t)program;
    attributes.attach_type = OMN_BPF_TRACE_UPROBE_MULTI;
    attributes.part.path = (uintptr_t)path;
    attributes.part.offsets = (uintptr_t)places->offsets;
    attributes.part.cookies = (uintptr_t)places->cookies;
    attributes.part.count = places->count;
    attributes.part.flags = places->is_return ? OMN_BPF_UPROBE_MULTI_RETURN : 0;
    attributes.part.pid = places->pid;
    return omn_bpf(BPF_LINK_CREATE, &attributes, sizeof(attributes));
}

int omn_bpf_info(int descriptor, void *information, uint32_t *size) {
    union bpf_attr attributes;
    int returned;

    memset(&attributes, 0, sizeof(attributes));
    attributes.info.bpf_fd = (uint32_t)descriptor;
    attributes.info.info_len = *size;
    attributes.info.info = (uintptr_t)information;
    returned = omn_bpf(BPF_OBJ_GET_INFO_BY_FD, &attributes, sizeof(attributes));
    *size = attributes.info.info_len;
    return returned;
}

int omn_enter_network(int namespace) { return result_of(setns(namespace, CLONE_NEWNET)); }

int64_t omn_read_ended_cpu(int pid) {
    siginfo_t found;
    struct rusage used;

    memset(&found, 0, sizeof(found));
    /* The C library's waitid leaves out what the system call adds: the account that a reaping would bring. */
    if (syscall(SYS_waitid, P_PID, pid, &found, WEXITED | WNOWAIT | WNOHANG, &used) < 0)
        return -errno;
    if (found.si_pid != pid)
        return -ECHILD;
    return (int64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 + used.ru_utime.tv_usec +
           used.ru_stime.tv_usec;
}
