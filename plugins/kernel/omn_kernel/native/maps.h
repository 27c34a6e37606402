/* What maps hold: one entry, many by their keys, or all of them. A call returns zero, or a negated errno. */

#ifndef OMN_MAPS_H
#define OMN_MAPS_H

#include <stddef.h>
#include <stdint.h>

/* A map as its entries are copied: bytes of a key, and of a value with every cpu's part. */
struct omn_map {
    int descriptor;
    uint32_t key_size;
    uint32_t value_size;
};

/* Set an entry; flags are BPF_ANY, BPF_NOEXIST or BPF_EXIST. Remove one. */
int omn_map_update(const struct omn_map *map, const void *key, const void *value, uint64_t flags);
int omn_map_delete(const struct omn_map *map, const void *key);

/* Look so many keys up; found says of each whether it was there, and its value is untouched where it was not. */
int omn_map_lookup(const struct omn_map *map, const uint8_t *keys, size_t count, uint8_t *values, uint8_t *found);

/* Copy up to *count entries, and remove them where takes says so. from is what the call before left in next, or NULL
   for the first; both have room for a key and for 8 bytes. *count becomes how many were copied. -ENOENT: these were
   the last. -ENOSPC: the entries of one bucket do not fit. */
int omn_map_batch(const struct omn_map *map, int takes, const void *from, void *next, uint8_t *keys, uint8_t *values,
                  uint32_t *count);

/* The same, for all that fit, entry by entry, where the kernel has no batch for such a map. */
int omn_map_walk(const struct omn_map *map, int takes, uint8_t *keys, uint8_t *values, uint32_t *count);

#endif
