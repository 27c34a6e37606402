#include "btf.h"

size_t omn_btf_starts(const uint32_t *words, size_t count, const uint32_t *fixed, const uint32_t *each,
                      uint32_t *starts, size_t *end) {
    size_t types = 0, at = 0;

    while (at + 1 < count) {
        const uint32_t information = words[at + 1], kind = information >> 24 & 0x1f;

        starts[types++] = (uint32_t)at;
        if (fixed[kind] == 0)
            break;
        at += fixed[kind] + (size_t)each[kind] * (information & 0xffff);
    }
    *end = at;
    return types;
}

void omn_btf_hashes(const uint8_t *strings, size_t size, const uint32_t *offsets, size_t count, uint32_t base,
                    uint32_t *hashes, uint8_t *whole) {
    for (size_t name = 0; name < count; name++) {
        const size_t begin = offsets[name];
        uint32_t hash = 0, power = 1;
        size_t at = begin;

        while (at < size && strings[at] != 0 && at - begin < OMN_BTF_NAME_BYTES) {
            hash += strings[at++] * power;
            power *= base;
        }
        hashes[name] = hash;
        whole[name] = at < size && strings[at] == 0 && (begin == 0 || strings[begin - 1] == 0);
    }
}
