/* Memory that a library inside a program shares with omn: processes, stacks, and buffers of records.

   Omn makes the memory and names it in the program's environment. A process that the library is loaded into takes the
   next place of a process, a thread takes a free buffer and fills it, alone; omn copies what is written, and frees a
   buffer that is full or whose thread is gone. Nobody ever waits: what finds no room is counted. */

#ifndef OMN_INJECTED_H
#define OMN_INJECTED_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define OMN_INJECTED_MAGIC 0x31646e696e6d6fULL
#define OMN_INJECTED_PROCESSES 4096
#define OMN_INJECTED_BUFFERS 2048
#define OMN_INJECTED_BUFFER_BYTES (32 << 10)
#define OMN_INJECTED_STACKS (1 << 16)
#define OMN_INJECTED_FRAMES (1 << 22)
#define OMN_INJECTED_NAME 16
#define OMN_NO_STACK UINT32_MAX
#define OMN_MOST_FRAMES 127

/* What became of a process, added up: the library is in it; its calls go elsewhere; the library's way out began. */
enum { OMN_PROCESS_SEEN = 1, OMN_PROCESS_BYPASSED = 2, OMN_PROCESS_EXITING = 4 };

struct omn_injected_process {
    uint32_t state;
    uint32_t pid;
    uint32_t parent;
    uint32_t pid_namespace;
    uint64_t began_ns;
};

enum { OMN_BUFFER_FREE, OMN_BUFFER_TAKEN, OMN_BUFFER_FULL };

/* Of its calls one in OMN_TIMED_OF is timed: what the library adds to it. A span longer than OMN_LONGEST_NS was
   interrupted: it is counted apart. */
#define OMN_TIMED_OF 17
#define OMN_LONGEST_NS 200000

struct omn_injected_buffer {
    uint32_t state;
    uint32_t written;
    uint32_t process;
    uint32_t thread;
    uint32_t timed;
    uint32_t timed_long;
    uint64_t timed_ns;
    /* When the thread took it. */
    uint64_t base_ns;
    char name[OMN_INJECTED_NAME];
    /* A robust mutex that the thread holds: however it goes, the kernel marks it. */
    pthread_mutex_t held;
} __attribute__((aligned(64)));

struct omn_injected_stack {
    uint64_t hash;
    uint32_t at;
    uint32_t length;
};

struct omn_injected_memory {
    uint64_t magic;
    uint64_t bytes;
    uint32_t is_on;
    /* How many frames of a stack are kept, none where 0. */
    uint32_t depth;
    uint64_t lost __attribute__((aligned(64)));
    uint64_t lost_stacks;
    uint64_t lost_processes;
    uint32_t process_count __attribute__((aligned(64)));
    uint32_t free_buffers;
    uint32_t first_free;
    uint32_t frame_count;
    struct omn_injected_process processes[OMN_INJECTED_PROCESSES] __attribute__((aligned(64)));
    struct omn_injected_buffer buffers[OMN_INJECTED_BUFFERS] __attribute__((aligned(64)));
    struct omn_injected_stack stacks[OMN_INJECTED_STACKS] __attribute__((aligned(64)));
    uint64_t frames[OMN_INJECTED_FRAMES] __attribute__((aligned(4096)));
    uint8_t records[OMN_INJECTED_BUFFERS][OMN_INJECTED_BUFFER_BYTES] __attribute__((aligned(4096)));
};

/* What was copied of one buffer: how many bytes, and whose they are. */
struct omn_injected_part {
    uint32_t process;
    uint32_t thread;
    uint32_t bytes;
    char name[OMN_INJECTED_NAME];
    uint64_t base_ns;
};

/* Make new memory ready to be shared, nothing recorded yet. */
void omn_injected_begin(struct omn_injected_memory *memory, uint32_t depth);

/* Begin to record, or end. */
void omn_injected_turn(struct omn_injected_memory *memory, uint32_t is_on);

/* How many bytes wait to be copied, `consumed` being how many of each buffer were. */
uint64_t omn_injected_waiting(const struct omn_injected_memory *memory, const uint32_t *consumed);

/* What threads measured of their own cost, added up: calls that were timed, their time, and those left out. */
struct omn_injected_cost {
    uint64_t timed;
    uint64_t timed_ns;
    uint64_t timed_long;
};

/* Copy what waits, buffer by buffer, until `room` is full; a buffer that is done is freed, and its cost added. `parts`
   has a place for each buffer. Returns how many parts there are. */
uint32_t omn_injected_drain(struct omn_injected_memory *memory, uint32_t *consumed, uint8_t *out, uint64_t room,
                            struct omn_injected_part *parts, struct omn_injected_cost *cost);

/* Add the cost that threads measured whose buffers are not done. */
void omn_injected_add_cost(const struct omn_injected_memory *memory, struct omn_injected_cost *cost);

#endif
