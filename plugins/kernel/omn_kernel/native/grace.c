#define _GNU_SOURCE
#include "grace.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

static int call_membarrier(int command) {
    const long returned = syscall(SYS_membarrier, command, 0, 0);

    return returned < 0 ? -errno : (int)returned;
}

int omn_grace_query(void) {
    const int commands = call_membarrier(MEMBARRIER_CMD_QUERY);

    if (commands < 0)
        return commands;
    return commands & MEMBARRIER_CMD_GLOBAL ? 0 : -EINVAL;
}

int omn_grace_wait(void) { return call_membarrier(MEMBARRIER_CMD_GLOBAL); }
