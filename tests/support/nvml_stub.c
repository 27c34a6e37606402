/* A stand-in for libnvidia-ml.so.1. It answers each call from the file that OMN_STUB_NVML names, read anew each time.
 *
 * A line is a name and what it answers: "count 2", "init 9", "0.temp 45". A device's name is its number, a dot and the
 * call's; "0.temp.error 15" makes the call return that code, "0.temp.sleep_ms 1000" makes it wait first. What no line
 * names is not supported. Layouts and codes are those of nvml.h as nvidia-ml-py declares them.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9 };

static int find(const char *name, char *answer, size_t size)
{
    const char *path = getenv("OMN_STUB_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[4096];
    size_t length = strlen(name);
    int found = 0;
    if (!file)
        return 0;
    while (!found && fgets(line, sizeof line, file)) {
        if (strncmp(line, name, length) || line[length] != ' ')
            continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(answer, size, "%s", line + length + 1);
        found = 1;
    }
    fclose(file);
    return found;
}

static long number(const char *name, long otherwise)
{
    char answer[4096];
    return find(name, answer, sizeof answer) ? atol(answer) : otherwise;
}

static int ask(void *device, const char *call, char *answer, size_t size)
{
    char name[128];
    long index = (long)(intptr_t)device - 1, wait, code;
    snprintf(name, sizeof name, "%ld.%s.sleep_ms", index, call);
    wait = number(name, 0);
    if (wait) {
        struct timespec length = {wait / 1000, wait % 1000 * 1000000};
        nanosleep(&length, NULL);
    }
    snprintf(name, sizeof name, "%ld.%s.error", index, call);
    code = number(name, 0);
    if (code)
        return (int)code;
    snprintf(name, sizeof name, "%ld.lost", index);
    if (number(name, 0))
        return 15;
    snprintf(name, sizeof name, "%ld.%s", index, call);
    return find(name, answer, size) ? SUCCESS : NOT_SUPPORTED;
}

static int ask_number(void *device, const char *call, unsigned int *value)
{
    char answer[4096];
    int code = ask(device, call, answer, sizeof answer);
    if (!code)
        *value = (unsigned int)strtoul(answer, NULL, 0);
    return code;
}

static int ask_text(void *device, const char *call, char *text, unsigned int size)
{
    char answer[4096];
    int code = ask(device, call, answer, sizeof answer);
    if (!code)
        snprintf(text, size, "%s", answer);
    return code;
}

int nvmlInitWithFlags(unsigned int flags)
{
    (void)flags;
    return (int)number("init", getenv("OMN_STUB_NVML") ? SUCCESS : DRIVER_NOT_LOADED);
}
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { return code == INSUFFICIENT_SIZE ? "Insufficient Size" : "A Code Of The Stub"; }
int nvmlDeviceGetCount_v2(unsigned int *count)
{
    *count = (unsigned int)number("count", 0);
    return (int)number("count.error", SUCCESS);
}
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device)
{
    *device = (void *)(intptr_t)(index + 1);
    return SUCCESS;
}
int nvmlDeviceGetName(void *device, char *text, unsigned int size) { return ask_text(device, "name", text, size); }
int nvmlDeviceGetUUID(void *device, char *text, unsigned int size) { return ask_text(device, "uuid", text, size); }

struct pci { char legacy[16]; unsigned int domain, bus, device, id, subsystem; char bus_id[32]; };
int nvmlDeviceGetPciInfo_v3(void *device, struct pci *info)
{
    memset(info, 0, sizeof *info);
    return ask_text(device, "pci", info->bus_id, sizeof info->bus_id);
}

struct memory { unsigned long long total, free, used; };
int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory)
{
    char answer[4096];
    int code = ask(device, "memory", answer, sizeof answer);
    if (!code)
        sscanf(answer, "%llu %llu %llu", &memory->total, &memory->free, &memory->used);
    return code;
}

struct rates { unsigned int gpu, memory; };
int nvmlDeviceGetUtilizationRates(void *device, struct rates *rates)
{
    char answer[4096];
    int code = ask(device, "rates", answer, sizeof answer);
    if (!code)
        sscanf(answer, "%u %u", &rates->gpu, &rates->memory);
    return code;
}

/* "AT:PERCENT AT:PERCENT": those after what the caller has seen. */
struct sample { unsigned long long at; union { unsigned int whole; double real; } value; };
int nvmlDeviceGetSamples(void *device, int kind, unsigned long long seen, int *type, unsigned int *count,
                         struct sample *samples)
{
    char answer[4096], *rest, *word;
    unsigned int held = 0, room = *count;
    int code = ask(device, kind == 1 ? "samples" : kind == 2 ? "memory_samples" : "none", answer, sizeof answer);
    if (code)
        return code;
    *type = 1;
    for (word = strtok_r(answer, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        unsigned long long at;
        unsigned int percent;
        if (sscanf(word, "%llu:%u", &at, &percent) != 2 || at <= seen)
            continue;
        if (samples && held < room) {
            samples[held].at = at;
            samples[held].value.whole = percent;
        }
        held++;
    }
    *count = held;
    return held ? SUCCESS : NOT_FOUND;
}

int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules)
{
    char answer[4096];
    int code = ask(device, "energy", answer, sizeof answer);
    if (!code)
        *millijoules = strtoull(answer, NULL, 10);
    return code;
}
int nvmlDeviceGetPowerUsage(void *device, unsigned int *value) { return ask_number(device, "power", value); }

struct temperature { unsigned int version, sensor; int celsius; };
int nvmlDeviceGetTemperatureV(void *device, struct temperature *told)
{
    unsigned int value = 0;
    int code = ask_number(device, "temp", &value);
    told->celsius = (int)value;
    return code;
}
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned int *value)
{
    (void)sensor;
    return ask_number(device, "old_temp", value);
}

int nvmlDeviceGetClockInfo(void *device, int kind, unsigned int *value)
{
    static const char *const names[] = {"graphics", "sm", "mem", "video"};
    return ask_number(device, names[kind], value);
}
int nvmlDeviceGetApplicationsClock(void *device, int kind, unsigned int *value)
{
    (void)kind;
    return ask_number(device, "application", value);
}
int nvmlDeviceGetPersistenceMode(void *device, unsigned int *value) { return ask_number(device, "persistence", value); }
int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *reasons)
{
    unsigned int value = 0;
    int code = ask_number(device, "reasons", &value);
    *reasons = value;
    return code;
}
int nvmlDeviceGetPcieThroughput(void *device, int counter, unsigned int *value)
{
    return ask_number(device, counter ? "rx" : "tx", value);
}
int nvmlDeviceGetMigMode(void *device, unsigned int *now, unsigned int *next)
{
    *next = 0;
    return ask_number(device, "mig", now);
}

/* "PID:BYTES PID:BYTES:PART": BYTES is "-" where the driver does not tell. */
struct process { unsigned int pid; unsigned long long held; unsigned int part, inner; };
static int list(void *device, const char *call, unsigned int *count, struct process *processes)
{
    char answer[4096], *rest, *word;
    unsigned int held = 0, room = *count;
    int code = ask(device, call, answer, sizeof answer);
    if (code)
        return code;
    for (word = strtok_r(answer, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        unsigned int pid, part = 0xFFFFFFFF;
        char amount[32] = "";
        if (sscanf(word, "%u:%31[^:]:%u", &pid, amount, &part) < 2)
            continue;
        if (processes && held < room) {
            unsigned long long bytes = amount[0] == '-' ? ~0ull : strtoull(amount, NULL, 10);
            processes[held] = (struct process){pid, bytes, part, 0xFFFFFFFF};
        }
        held++;
    }
    *count = held;
    return held > room ? INSUFFICIENT_SIZE : SUCCESS;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count, struct process *processes)
{
    return list(device, "compute", count, processes);
}
int nvmlDeviceGetComputeRunningProcesses_v2(void *device, unsigned int *count, struct process *processes)
{
    return list(device, "old_compute", count, processes);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned int *count, struct process *processes)
{
    return list(device, "graphics_list", count, processes);
}

/* "AT:PID:SM AT:PID:SM:MEM": the shares of processes after what the caller has seen. */
struct share { unsigned int pid; unsigned long long at; unsigned int sm, memory, encoder, decoder; };
int nvmlDeviceGetProcessUtilization(void *device, struct share *shares, unsigned int *count, unsigned long long seen)
{
    char answer[4096], *rest, *word;
    unsigned int held = 0, room = *count;
    int code = ask(device, "shares", answer, sizeof answer);
    if (code)
        return code;
    for (word = strtok_r(answer, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        unsigned long long at;
        unsigned int pid, sm, memory = 0;
        if (sscanf(word, "%llu:%u:%u:%u", &at, &pid, &sm, &memory) < 3 || at <= seen)
            continue;
        if (shares && held < room)
            shares[held] = (struct share){pid, at, sm, memory, 0, 0};
        held++;
    }
    *count = held;
    if (!held)
        return NOT_FOUND;
    return held > room ? INSUFFICIENT_SIZE : SUCCESS;
}
