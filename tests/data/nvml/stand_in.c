/* A stand-in for libnvidia-ml.so.1 that answers from the environment variable NVML_STAND_IN.

   Devices are separated by '/', fields by ';': name=NVIDIA A100-SXM4-80GB;uuid=GPU-1;max_mem=1593;power=!3
   "!3" is NVML's return code 3 (NOT_SUPPORTED), which a field that is not there has too. Fields of the first device
   that concern the library: init (a return code), driver, cuda. A device with parent=0 is a MIG slice of device 0. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOT_SUPPORTED 3
#define NOT_FOUND 6
#define VERSION_MISMATCH 25

typedef unsigned int u32;
typedef unsigned long long u64;
typedef struct { char *text; } device;
static device devices[8];
static u32 count;

static void load(void) {
    const char *given = getenv("NVML_STAND_IN");
    char *copy = strdup(given ? given : ""), *save = NULL;
    count = 0;
    for (char *part = strtok_r(copy, "/", &save); part && count < 8; part = strtok_r(NULL, "/", &save))
        devices[count++].text = part;
}

/* The value of a field; NULL, with the code, where there is none. */
static const char *value(const device *d, const char *key, int *code) {
    static char found[8][256];
    static int turn;
    char *out = found[turn = (turn + 1) % 8];
    size_t length = strlen(key);
    *code = NOT_SUPPORTED;
    for (const char *at = d->text; at && *at; at = strchr(at, ';') ? strchr(at, ';') + 1 : NULL) {
        if (strncmp(at, key, length) || at[length] != '=') continue;
        size_t size = strcspn(at + length + 1, ";");
        snprintf(out, 256, "%.*s", (int)size, at + length + 1);
        if (*out == '!') { *code = atoi(out + 1); return NULL; }
        *code = 0;
        return out;
    }
    return NULL;
}

static int text(const device *d, const char *key, char *to, u32 size) {
    int code;
    const char *found = value(d, key, &code);
    if (found) snprintf(to, size, "%s", found);
    return code;
}

static int number(const device *d, const char *key, u64 *to) {
    int code;
    const char *found = value(d, key, &code);
    if (found) *to = strtoull(found, NULL, 0);
    return code;
}

static int number32(const device *d, const char *key, u32 *to) {
    u64 wide = 0;
    int code = number(d, key, &wide);
    if (!code) *to = (u32)wide;
    return code;
}

static int slice(const device *d) { int code; return value(d, "parent", &code) != NULL; }

int nvmlInitWithFlags(u32 flags) {
    u32 code = 0;
    (void)flags;
    load();
    if (count) number32(&devices[0], "init", &code);
    return (int)code;
}
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) {
    switch (code) {
        case NOT_SUPPORTED: return "Not Supported";
        case 4: return "Insufficient Permissions";
        case NOT_FOUND: return "Not Found";
        case 9: return "Driver Not Loaded";
        case 15: return "GPU is lost";
        case 18: return "Driver/library version mismatch";
        default: return "Unknown Error";
    }
}
int nvmlSystemGetDriverVersion(char *to, u32 size) { return text(&devices[0], "driver", to, size); }
int nvmlSystemGetCudaDriverVersion(int *to) { return number32(&devices[0], "cuda", (u32 *)to); }
int nvmlDeviceGetCount_v2(u32 *to) {
    *to = 0;
    for (u32 i = 0; i < count; i++) *to += !slice(&devices[i]);
    return 0;
}
int nvmlDeviceGetHandleByIndex_v2(u32 index, device **to) {
    if (index >= count || slice(&devices[index])) return 2;
    *to = &devices[index];
    return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(device *d, u32 *to) { return number32(d, "slices", to); }
int nvmlDeviceGetMigDeviceHandleByIndex(device *d, u32 index, device **to) {
    for (u32 i = 0; i < count; i++) {
        u32 parent;
        if (number32(&devices[i], "parent", &parent) == 0 && &devices[parent] == d && index-- == 0) {
            *to = &devices[i];
            return 0;
        }
    }
    return NOT_FOUND;
}
int nvmlDeviceIsMigDeviceHandle(device *d, u32 *to) { *to = (u32)slice(d); return 0; }
int nvmlDeviceGetMigMode(device *d, u32 *now, u32 *later) { *later = 0; return number32(d, "mig", now); }
int nvmlDeviceGetName(device *d, char *to, u32 size) { return text(d, "name", to, size); }
int nvmlDeviceGetUUID(device *d, char *to, u32 size) { return text(d, "uuid", to, size); }
int nvmlDeviceGetMemoryInfo(device *d, u64 *to) { to[1] = to[2] = 0; return number(d, "memory", &to[0]); }
int nvmlDeviceGetMemoryBusWidth(device *d, u32 *to) { return number32(d, "bus", to); }
int nvmlDeviceGetMaxClockInfo(device *d, u32 kind, u32 *to) { return number32(d, kind == 2 ? "max_mem" : "max_sm", to); }
int nvmlDeviceGetClockInfo(device *d, u32 kind, u32 *to) { return number32(d, kind == 2 ? "mem" : "sm", to); }
int nvmlDeviceGetCudaComputeCapability(device *d, int *major, int *minor) {
    u32 both = 0;
    int code = number32(d, "cc", &both);
    *major = (int)both / 10;
    *minor = (int)both % 10;
    return code;
}
int nvmlDeviceGetEnforcedPowerLimit(device *d, u32 *to) { return number32(d, "limit", to); }
int nvmlDeviceGetPowerUsage(device *d, u32 *to) { return number32(d, "power", to); }
int nvmlDeviceGetTemperature(device *d, u32 sensor, u32 *to) { (void)sensor; return number32(d, "temperature", to); }
int nvmlDeviceGetCurrentClocksThrottleReasons(device *d, u64 *to) { return number(d, "reasons", to); }
#ifndef OLD_DRIVER
int nvmlDeviceGetCurrentClocksEventReasons(device *d, u64 *to) { return number(d, "reasons", to); }
/* Counts up with every call, by the sampled power over one second. */
int nvmlDeviceGetTotalEnergyConsumption(device *d, u64 *to) {
    static u64 sum;
    u64 each = 0;
    int code = number(d, "energy", &each);
    *to = sum += each;
    return code;
}
#endif
