/* System calls with structures that Python cannot lay out. Each returns a descriptor, or a negated errno. */

#ifndef OMN_CALLS_H
#define OMN_CALLS_H

#include <stdint.h>

/* Attach types of <linux/bpf.h> newer than the oldest headers this builds with (Linux 6.1): 6.6 gave uprobe_multi. */
#define OMN_BPF_TRACE_UPROBE_MULTI 48u

/* Create a map; btf is a descriptor and the ids its types where the map type wants them, inner a map of maps' own. */
int omn_bpf_map_create(uint32_t type, uint32_t key_size, uint32_t value_size, uint32_t entries, uint32_t flags, int btf,
                       uint32_t key_id, uint32_t value_id, int inner);

/* Load type information for maps that need it. */
int omn_bpf_btf_load(const void *data, uint32_t size);

/* Load the program that returns zero. attach_id is the BTF id of what it attaches to, 0 where the type has none. */
int omn_bpf_program_load(uint32_t type, uint32_t attach_type, uint32_t attach_id);

/* Attach to a raw tracepoint by name; without a name, to what the program was loaded for. */
int omn_bpf_raw_tracepoint_open(const char *name, int program);

/* Link a uprobe_multi program to the start of a file. */
int omn_bpf_uprobe_multi_link(const char *path, int program);

/* Link an iterator program. */
int omn_bpf_iter_link(int program);

/* Move the calling thread alone into a network namespace. */
int omn_enter_network(int namespace);

#endif
