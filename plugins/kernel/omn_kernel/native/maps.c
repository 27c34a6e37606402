#define _GNU_SOURCE
#include "maps.h"

#include <errno.h>
#include <linux/bpf.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int call_bpf(enum bpf_cmd command, union bpf_attr *attributes, size_t size) {
    return syscall(SYS_bpf, command, attributes, size) < 0 ? -errno : 0;
}

#define END_OF(member) (offsetof(union bpf_attr, member) + sizeof(((union bpf_attr *)0)->member))

static int call_element(enum bpf_cmd command, const struct omn_map *map, const void *key, const void *value,
                        uint64_t flags) {
    union bpf_attr attributes;

    memset(&attributes, 0, sizeof(attributes));
    attributes.map_fd = (uint32_t)map->descriptor;
    attributes.key = (uintptr_t)key;
    attributes.value = (uintptr_t)value;
    attributes.flags = flags;
    return call_bpf(command, &attributes, END_OF(flags));
}

int omn_map_update(const struct omn_map *map, const void *key, const void *value, uint64_t flags) {
    return call_element(BPF_MAP_UPDATE_ELEM, map, key, value, flags);
}

int omn_map_delete(const struct omn_map *map, const void *key) {
    return call_element(BPF_MAP_DELETE_ELEM, map, key, NULL, 0);
}

int omn_map_lookup(const struct omn_map *map, const uint8_t *keys, size_t count, uint8_t *values, uint8_t *found) {
    for (size_t index = 0; index < count; index++) {
        const int failed = call_element(BPF_MAP_LOOKUP_ELEM, map, keys + index * map->key_size,
                                        values + index * map->value_size, 0);
        if (failed != 0 && failed != -ENOENT)
            return failed;
        found[index] = failed == 0;
    }
    return 0;
}

int omn_map_batch(const struct omn_map *map, int takes, const void *from, void *next, uint8_t *keys, uint8_t *values,
                  uint32_t *count) {
    union bpf_attr attributes;
    int failed;

    memset(&attributes, 0, sizeof(attributes));
    attributes.batch.in_batch = (uintptr_t)from;
    attributes.batch.out_batch = (uintptr_t)next;
    attributes.batch.keys = (uintptr_t)keys;
    attributes.batch.values = (uintptr_t)values;
    attributes.batch.count = *count;
    attributes.batch.map_fd = (uint32_t)map->descriptor;
    failed = call_bpf(takes ? BPF_MAP_LOOKUP_AND_DELETE_BATCH : BPF_MAP_LOOKUP_BATCH, &attributes, END_OF(batch));
    *count = attributes.batch.count;
    return failed;
}

int omn_map_walk(const struct omn_map *map, int takes, uint8_t *keys, uint8_t *values, uint32_t *count) {
    const uint32_t room = *count;
    uint8_t key[map->key_size];
    int failed = call_element(BPF_MAP_GET_NEXT_KEY, map, NULL, key, 0);

    *count = 0;
    while (failed == 0 && *count < room) {
        uint8_t *place = keys + (size_t)*count * map->key_size;
        int missed;
        memcpy(place, key, map->key_size);
        missed = call_element(BPF_MAP_LOOKUP_ELEM, map, place, values + (size_t)*count * map->value_size, 0);
        if (missed != 0 && missed != -ENOENT)
            return missed;
        /* The next key is asked for while this one is still there: after one that is not, the kernel begins anew. */
        failed = call_element(BPF_MAP_GET_NEXT_KEY, map, place, key, 0);
        if (takes)
            omn_map_delete(map, place);
        *count += missed == 0;
    }
    return failed == -ENOENT ? 0 : failed;
}
