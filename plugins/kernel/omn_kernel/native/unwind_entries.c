/* The records of an .eh_frame (Linux Standard Base Core, section 10.6) and of a .debug_frame (DWARF 5, section 6.4.1). */

#include "unwind_inside.h"

enum { MOST_AUGMENTATIONS = 16 };

/* A pointer as the augmentation says they are written (LSB, section 10.5: DW_EH_PE_*). */
uint64_t omn_take_pointer(struct reader *reader, uint8_t encoding, const struct omn_frame_table *table)
{
    uint64_t place = table->address + (uint64_t)(reader->at - table->content);
    uint64_t value;

    switch (encoding & 0x0f) {
    case 0x00:
    case 0x04:
    case 0x0c:
        value = take(reader, 8);
        break;
    case 0x01:
        value = take_leb(reader, 0);
        break;
    case 0x02:
        value = take(reader, 2);
        break;
    case 0x03:
        value = take(reader, 4);
        break;
    case 0x09:
        value = take_leb(reader, 1);
        break;
    case 0x0a:
        value = (uint64_t)take_signed(reader, 2);
        break;
    case 0x0b:
        value = (uint64_t)take_signed(reader, 4);
        break;
    default:
        reader->failed = 1;
        return 0;
    }
    if ((encoding & 0x70) == 0x10)
        value += place;
    else if (encoding & 0x70)
        reader->failed = 1;
    return value;
}

/* What an id says in a .debug_frame that is a common record's. In an .eh_frame that is 0. */
enum { ID_BYTES = 4, WIDE_ID_BYTES = 8 };

static int is_debug(const struct omn_frame_table *table, uint64_t offset) { return offset >= table->debug_at; }

/* Open the record at an offset: its body after the length, and how wide its id is. Return 0 at the end. */
static int open_record(const struct omn_frame_table *table, uint64_t offset, struct reader *body, uint64_t *next,
                       unsigned *id_bytes)
{
    const uint64_t size = is_debug(table, offset) ? table->size : table->debug_at;
    struct reader reader = {table->content + offset, table->content + size, 0};
    uint64_t length;

    if (offset >= size)
        return 0;
    *id_bytes = ID_BYTES;
    length = take(&reader, 4);
    if (length == 0xffffffff) {
        length = take(&reader, 8);
        if (is_debug(table, offset))
            *id_bytes = WIDE_ID_BYTES;
    }
    if (reader.failed || length < *id_bytes || length > (uint64_t)(reader.end - reader.at))
        return 0;
    body->at = reader.at;
    body->end = reader.at + length;
    body->failed = 0;
    *next = (uint64_t)(body->end - table->content);
    return 1;
}

/* Find the common record that a record is under, by its own id. Return 0 for a common record and for no such place. */
static int find_common(const struct omn_frame_table *table, uint64_t offset, struct reader *body, unsigned id_bytes,
                       uint64_t *common_at)
{
    const uint64_t id_at = (uint64_t)(body->at - table->content), id = take(body, id_bytes);

    if (is_debug(table, offset)) {
        *common_at = table->debug_at + id;
        return id != (id_bytes == ID_BYTES ? 0xffffffff : ~(uint64_t)0) && id < table->size - table->debug_at;
    }
    *common_at = id_at - id;
    return id != 0 && id <= id_at;
}

/* Whether what stands where a record's id does is a common record's. */
static int take_common_id(const struct omn_frame_table *table, uint64_t offset, struct reader *body, unsigned id_bytes)
{
    const uint64_t id = take(body, id_bytes);

    if (!is_debug(table, offset))
        return id == 0;
    return id == (id_bytes == ID_BYTES ? 0xffffffff : ~(uint64_t)0);
}

static int read_augmentation(const struct omn_frame_table *table, struct reader *body, const char *letters,
                             struct common *common)
{
    uint64_t length = take_leb(body, 0);
    struct reader data = *body;

    skip(body, length);
    if (body->failed)
        return 0;
    data.end = body->at;
    for (; *letters; letters++) {
        if (*letters == 'R') {
            common->pointer_encoding = (uint8_t)take(&data, 1);
        } else if (*letters == 'P') {
            uint8_t encoding = (uint8_t)take(&data, 1);

            omn_take_pointer(&data, encoding & 0x7f, table);
        } else if (*letters == 'L') {
            take(&data, 1);
        } else if (*letters == 'S') {
            common->is_signal = 1;
        } else {
            break; /* the length stepped over what is not known here */
        }
    }
    return !data.failed;
}

static int read_common(const struct omn_frame_table *table, uint64_t offset, struct common *common)
{
    char letters[MOST_AUGMENTATIONS + 1] = {0};
    struct reader body;
    uint64_t next;
    unsigned version, id_bytes, count = 0;

    if (!open_record(table, offset, &body, &next, &id_bytes) || !take_common_id(table, offset, &body, id_bytes))
        return 0;
    memset(common, 0, sizeof *common);
    version = (unsigned)take(&body, 1);
    while ((letters[count] = (char)take(&body, 1)) != 0)
        if (++count > MOST_AUGMENTATIONS - 1)
            return 0;
    if (version != 1 && version != 3 && !(version == 4 && is_debug(table, offset)))
        return 0;
    if (version == 4 && (take(&body, 1) != 8 || take(&body, 1) != 0)) /* the bytes of an address and of a segment */
        return 0;
    common->code_factor = take_leb(&body, 0);
    common->data_factor = (int64_t)take_leb(&body, 1);
    common->return_register = version == 1 ? take(&body, 1) : take_leb(&body, 0);
    common->has_augmentation = letters[0] == 'z';
    if (letters[0] && !common->has_augmentation)
        return 0;
    if (common->has_augmentation && !read_augmentation(table, &body, letters + 1, common))
        return 0;
    common->program = body;
    return !body.failed && common->return_register < OMN_REGISTERS;
}

/* Read the entry at an offset. Return 1 for one, 0 for a record that is none, which may be a common one. */
int omn_read_entry(const struct omn_frame_table *table, uint64_t offset, struct entry *entry)
{
    struct reader body;
    uint64_t next, common_at;
    unsigned id_bytes;

    if (!open_record(table, offset, &body, &next, &id_bytes) ||
        !find_common(table, offset, &body, id_bytes, &common_at) || !read_common(table, common_at, &entry->common))
        return 0;
    entry->start = omn_take_pointer(&body, entry->common.pointer_encoding, table);
    entry->end = entry->start + omn_take_pointer(&body, entry->common.pointer_encoding & 0x0f, table);
    if (entry->common.has_augmentation)
        skip(&body, take_leb(&body, 0));
    entry->program = body;
    return !body.failed && entry->start < entry->end;
}

uint64_t omn_list_frames(const uint8_t *content, uint64_t size, uint64_t address, uint64_t debug_at, uint64_t *starts,
                         uint64_t *ends, uint64_t *entries, uint64_t capacity)
{
    struct omn_frame_table table = {.content = content, .size = size, .address = address, .debug_at = debug_at};
    struct reader body;
    struct entry entry;
    uint64_t offset = 0, next, count = 0;
    unsigned id_bytes;

    for (;;) {
        if (!open_record(&table, offset, &body, &next, &id_bytes)) {
            if (is_debug(&table, offset))
                return count;
            next = debug_at; /* the one ends, and the other begins */
        } else if (omn_read_entry(&table, offset, &entry)) {
            if (count < capacity) {
                starts[count] = entry.start;
                ends[count] = entry.end;
                entries[count] = offset;
            }
            count++;
        }
        offset = next;
    }
}
