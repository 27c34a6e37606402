#define _GNU_SOURCE
#include "calls.h"

#include <errno.h>
#include <linux/bpf.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int result_of(long returned) { return returned < 0 ? -errno : (int)returned; }

static int call_bpf(enum bpf_cmd command, union bpf_attr *attributes, unsigned int size) {
    return result_of(syscall(SYS_bpf, command, attributes, size));
}

/* A command is passed no more of the union than it reads, so that a kernel older than the headers takes it. */
#define END_OF(member) (offsetof(union bpf_attr, member) + sizeof(((union bpf_attr *)0)->member))

int omn_bpf_map_create(uint32_t type, uint32_t key_size, uint32_t value_size, uint32_t entries, uint32_t flags, int btf,
                       uint32_t key_id, uint32_t value_id, int inner) {
    union bpf_attr attributes;

    memset(&attributes, 0, sizeof(attributes));
    attributes.map_type = type;
    attributes.key_size = key_size;
    attributes.value_size = value_size;
    attributes.max_entries = entries;
    attributes.map_flags = flags;
    if (inner >= 0)
        attributes.inner_map_fd = (uint32_t)inner;
    if (btf >= 0)
        attributes.btf_fd = (uint32_t)btf;
    attributes.btf_key_type_id = key_id;
    attributes.btf_value_type_id = value_id;
    return call_bpf(BPF_MAP_CREATE, &attributes, END_OF(btf_value_type_id));
}

int omn_bpf_btf_load(const void *data, uint32_t size) {
    union bpf_attr attributes;

    memset(&attributes, 0, sizeof(attributes));
    attributes.btf = (uintptr_t)data;
    attributes.btf_size = size;
    return call_bpf(BPF_BTF_LOAD, &attributes, END_OF(btf_log_level));
}

int omn_bpf_program_load(uint32_t type, uint32_t attach_type, uint32_t attach_id) {
    static const struct bpf_insn instructions[] = {
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0},
        {.code = BPF_JMP | BPF_EXIT},
    };
    union bpf_attr attributes;

    memset(&attributes, 0, sizeof(attributes));
    attributes.prog_type = type;
    attributes.insns = (uintptr_t)instructions;
    attributes.insn_cnt = sizeof(instructions) / sizeof(instructions[0]);
    attributes.license = (uintptr_t) "GPL";
    attributes.expected_attach_type = attach_type;
    attributes.attach_btf_id = attach_id;
    if (type == BPF_PROG_TYPE_SYSCALL)
        attributes.prog_flags = BPF_F_SLEEPABLE;
    return call_bpf(BPF_PROG_LOAD, &attributes, END_OF(attach_btf_id));
}

int omn_bpf_raw_tracepoint_open(const char *name, int program) {
    union bpf_attr attributes;

    memset(&attributes, 0, sizeof(attributes));
    attributes.raw_tracepoint.name = (uintptr_t)name;
    attributes.raw_tracepoint.prog_fd = (uint32_t)program;
    return call_bpf(BPF_RAW_TRACEPOINT_OPEN, &attributes, END_OF(raw_tracepoint.prog_fd));
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

int omn_bpf_uprobe_multi_link(const char *path, int program) {
    uint64_t offset = 0;
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
    attributes.part.offsets = (uintptr_t)&offset;
    attributes.part.count = 1;
    return call_bpf(BPF_LINK_CREATE, (union bpf_attr *)&attributes, sizeof(attributes));
}

int omn_bpf_iter_link(int program) {
    union bpf_attr attributes;

    memset(&attributes, 0, sizeof(attributes));
    attributes.link_create.prog_fd = (uint32_t)program;
    attributes.link_create.attach_type = BPF_TRACE_ITER;
    return call_bpf(BPF_LINK_CREATE, &attributes, END_OF(link_create.flags));
}

int omn_enter_network(int namespace) { return result_of(setns(namespace, CLONE_NEWNET)); }
