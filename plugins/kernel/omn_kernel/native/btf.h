/* Type information as Documentation/bpf/btf.rst lays it out, read for its index. */

#ifndef OMN_BTF_H
#define OMN_BTF_H

#include <stddef.h>
#include <stdint.h>

#define OMN_BTF_KINDS 32
#define OMN_BTF_NAME_BYTES 512

/* Write the word at which each type starts into starts, which has room for a third of count and one more: a type has
   three words or more. fixed says how many words a type of each of OMN_BTF_KINDS has, zero for one that nobody knows,
   and each how many more for each of its members. Return how many types there are. *end becomes the word at which the
   last one ends, which is count unless it is cut short or of an unknown kind. */
size_t omn_btf_starts(const uint32_t *words, size_t count, const uint32_t *fixed, const uint32_t *each,
                      uint32_t *starts, size_t *end);

/* Compute the hash of the name at each offset among strings: the sum of each byte times base to the power of its place.
   whole says of each whether a string begins there and ends within OMN_BTF_NAME_BYTES, the most that a name of the
   kernel's has (KSYM_NAME_LEN). */
void omn_btf_hashes(const uint8_t *strings, size_t size, const uint32_t *offsets, size_t count, uint32_t base,
                    uint32_t *hashes, uint8_t *whole);

#endif
