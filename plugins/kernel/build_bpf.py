"""Describe the native module of eBPF maps and ring buffers to cffi; the compiler checks it by the kernel's headers."""

import os

from cffi import FFI

# setuptools runs this file by its path, from the project's folder and without __file__.
NATIVE = os.path.join("omn_kernel", "native")
PARTS = ("maps", "ringbuf", "grace")

DECLARATIONS = """
    struct omn_map {
        int descriptor;
        uint32_t key_size;
        uint32_t value_size;
    };
    int omn_map_update(const struct omn_map *map, const void *key, const void *value, uint64_t flags);
    int omn_map_delete(const struct omn_map *map, const void *key);
    int omn_map_lookup(const struct omn_map *map, const uint8_t *keys, size_t count, uint8_t *values, uint8_t *found);
    int omn_map_batch(const struct omn_map *map, int takes, const void *from, void *next, uint8_t *keys,
                      uint8_t *values, uint32_t *count);
    int omn_map_walk(const struct omn_map *map, int takes, uint8_t *keys, uint8_t *values, uint32_t *count);

    struct omn_ringbuf {
        void *reader;
        void *writer;
        uint64_t size;
    };
    int omn_ringbuf_map(int descriptor, uint64_t size, struct omn_ringbuf *ring);
    void omn_ringbuf_unmap(struct omn_ringbuf *ring);
    uint64_t omn_ringbuf_waiting(const struct omn_ringbuf *ring);
    uint64_t omn_ringbuf_drain(struct omn_ringbuf *ring, uint8_t *out, uint64_t room);
    uint64_t omn_ringbuf_gather(const uint8_t *data, uint64_t length, uint64_t record_size, uint8_t *rows);
    uint64_t omn_raw_samples_gather(const uint8_t *data, uint64_t length, uint64_t record_size, uint8_t *rows);

    int omn_grace_query(void);
    int omn_grace_wait(void);

    static const uint64_t BPF_F_CURRENT_CPU, BPF_RB_NO_WAKEUP;
"""

builder = FFI()
builder.cdef(DECLARATIONS)
builder.set_source(
    "omn_kernel.native._bpf",
    "#include <linux/bpf.h>\n" + "".join(f'#include "{part}.h"\n' for part in PARTS),
    sources=[os.path.join(NATIVE, f"{part}.c") for part in PARTS],
    include_dirs=[NATIVE],
    depends=[os.path.join(NATIVE, f"{part}.h") for part in PARTS],
    extra_compile_args=["-std=gnu11", "-Wall", "-Wextra"],
)
