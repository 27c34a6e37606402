/*
 * The client that a coding agent's hook runs: `omn-agent-hook HARNESS FOLDER on|off` hands the event on its standard
 * input to the recorder whose folder is named, filtered, with the CLOCK_MONOTONIC of its own start. What the recorder
 * cannot take at once becomes a file in its spool, renamed into place. A recorder that is gone gets the event's ids
 * alone, and one more byte in its count of drops. It prints nothing and ends with 0 whatever happens: a hook that
 * failed would be shown to the person who works.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "filter.h"

enum {
    LONGEST_INPUT = 64 << 20,
    LONGEST_MESSAGE = 128 << 10, /* a socket's buffer holds that by default, a longer event is spooled */
    PATIENCE_US = 200000,
    MOST_SPOOLED = 10000, /* files for a recorder that is gone; then only the count of drops grows */
    LONGEST_NAME = 80,
};

/* Read standard input to its end. False where it is longer than is kept; the rest is read away then. */
static bool read_input(struct text *input)
{
    bool is_whole = true;
    for (;;) {
        if (input->room - input->length < 65536) {
            input->room = 2 * input->room + (128 << 10);
            input->at = realloc(input->at, input->room);
            if (input->at == NULL)
                exit(0);
        }
        ssize_t length = read(STDIN_FILENO, input->at + input->length, input->room - input->length);
        if (length < 0 && errno == EINTR)
            continue;
        if (length <= 0)
            return is_whole;
        input->length += (size_t)length;
        if (input->length > LONGEST_INPUT) {
            is_whole = false;
            input->length = 0;
        }
    }
}

enum delivery { DELIVERED, BUSY, GONE };

/* Hand a message to the recorder's socket. */
static enum delivery deliver(const struct text *message)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "hooks"};
    struct timeval patience = {.tv_usec = PATIENCE_US};
    int channel = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (channel < 0)
        return BUSY;
    setsockopt(channel, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (connect(channel, (struct sockaddr *)&address, sizeof address) < 0)
        return errno == ENOENT || errno == ECONNREFUSED ? GONE : BUSY;
    if (message->length > LONGEST_MESSAGE)
        return BUSY;
    return send(channel, message->at, message->length, MSG_NOSIGNAL) < 0 ? BUSY : DELIVERED;
}

/* Put a message into the recorder's spool under a name that sorts by its stamp. False where it is not there whole. */
static bool spool(long long stamp_ns, const struct text *message)
{
    char path[LONGEST_NAME], hidden[LONGEST_NAME];
    snprintf(path, sizeof path, "spool/%020lld-%ld", stamp_ns, (long)getpid());
    snprintf(hidden, sizeof hidden, "spool/.%020lld-%ld", stamp_ns, (long)getpid());
    int file = open(hidden, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
        return false;
    size_t written = 0;
    while (written < message->length) {
        ssize_t step = write(file, message->at + written, message->length - written);
        if (step < 0 && errno == EINTR)
            continue;
        if (step <= 0)
            break;
        written += (size_t)step;
    }
    close(file);
    bool is_there = written == message->length && rename(hidden, path) == 0;
    if (!is_there)
        unlink(hidden);
    return is_there;
}

/* Count one event that the recorder does not get, and return how many those are; 0 where nobody can count. */
static long long count_drop(void)
{
    struct stat found;
    int file = open("spool/drops", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0 || write(file, ".", 1) != 1 || fstat(file, &found) < 0)
        return 0;
    return found.st_size;
}

int main(int count, char **arguments)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (count != 4 || chdir(arguments[2]) < 0)
        return 0;
    long long stamp_ns = now.tv_sec * 1000000000LL + now.tv_nsec;
    const char *harness = arguments[1];
    enum content content = strcmp(arguments[3], "on") == 0 ? CONTENT_ON : CONTENT_OFF;
    struct text input = {0}, message = {0};
    bool is_whole = read_input(&input);
    struct span given = {input.at, input.length};

    append(&message, "{\"stamp_ns\":%lld,\"harness\":\"%.20s\",\"pid\":%ld,\"client\":%ld,\"size\":%zu,\"input\":",
           stamp_ns, harness, (long)getppid(), (long)getpid(), input.length);
    size_t head = message.length;
    if (!is_whole || !append_filtered(&message, given, content))
        append(&message, "null");
    append(&message, "}");

    enum delivery delivery = deliver(&message);
    if (delivery == BUSY && !spool(stamp_ns, &message))
        count_drop();
    if (delivery == GONE) {
        long long drops = count_drop();
        message.length = head;
        if (!is_whole || !append_filtered(&message, given, CONTENT_OFF))
            append(&message, "null");
        append(&message, "}");
        if (drops > 0 && drops <= MOST_SPOOLED)
            spool(stamp_ns, &message);
    }
    return 0;
}
