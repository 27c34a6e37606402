/* System calls with structures that Python cannot lay out. Each returns what the call does, or a negated errno. */

#ifndef OMN_CALLS_H
#define OMN_CALLS_H

#include <stdint.h>

/* Names of <linux/bpf.h> newer than the oldest headers this builds with (Linux 6.1): 6.6 gave uprobe_multi. */
#define OMN_BPF_TRACE_UPROBE_MULTI 48u
#define OMN_BPF_UPROBE_MULTI_RETURN 1u

/* Call bpf(2). attributes is a zeroed union bpf_attr with the command's members set: kernels take a larger one than
 * they know where what they do not know is zero. The kernel writes back to it. */
int omn_bpf(int command, void *attributes, uint32_t size);

/* Attach to a raw tracepoint by name; without a name, to what the program was loaded for. */
int omn_bpf_raw_tracepoint_open(const char *name, int program);

/* Run a raw tracepoint's program once on a cpu, in an interrupt of that (Linux 5.10). */
int omn_bpf_run_on(int program, uint32_t cpu);

/* Link a program to a target, which for an iterator is 0. */
int omn_bpf_link_create(int program, int target, uint32_t attach_type);

/* Places in a file where a uprobe_multi program runs: pid 0 is whoever maps it; cookies may be NULL. */
struct omn_bpf_places {
    const uint64_t *offsets;
    const uint64_t *cookies;
    uint32_t count;
    uint32_t pid;
    uint32_t is_return;
};

/* Link a uprobe_multi program to places in a file. */
int omn_bpf_uprobe_multi_link(const char *path, int program, const struct omn_bpf_places *places);

/* Read what the kernel says of a program, map or link; size is the room, and afterwards what was written. */
int omn_bpf_info(int descriptor, void *information, uint32_t *size);

/* Move the calling thread alone into a network namespace. */
int omn_enter_network(int namespace);

/* Microseconds of cpu that a child of this process used which has ended and is not reaped, with all it waited for. It
   stays unreaped. A negated errno where it is no such child: ECHILD too where it has not ended. */
int64_t omn_read_ended_cpu(int pid);

#endif
