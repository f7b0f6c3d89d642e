/* Stands in for the driver's library: two GPUs, of which the second answers less. */
#include <string.h>

typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned long long total, free, used; } Memory;
enum { OK = 0, NOT_SUPPORTED = 3 };

static int first = 1, second = 2;
#define SECOND(gpu) ((gpu) == (void *)&second)

int nvmlInit_v2(void) { return OK; }
int nvmlInitWithFlags(unsigned flags) { return OK; }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return "no"; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **gpu) {
  *gpu = index ? (void *)&second : (void *)&first;
  return OK;
}
int nvmlDeviceGetName(void *gpu, char *name, unsigned size) { strncpy(name, "NVIDIA H200", size); return OK; }
int nvmlDeviceGetUUID(void *gpu, char *name, unsigned size) {
  strncpy(name, SECOND(gpu) ? "GPU-bbbb" : "GPU-aaaa", size);
  return OK;
}
int nvmlDeviceGetUtilizationRates(void *gpu, Utilization *share) {
  if (SECOND(gpu)) return NOT_SUPPORTED;
  share->gpu = 87; share->memory = 40;
  return OK;
}
int nvmlDeviceGetMemoryInfo(void *gpu, Memory *memory) {
  memory->total = 1000; memory->used = SECOND(gpu) ? 0 : 250; memory->free = memory->total - memory->used;
  return OK;
}
int nvmlDeviceGetPowerUsage(void *gpu, unsigned *milliwatts) { *milliwatts = 512345; return OK; }
int nvmlDeviceGetEnforcedPowerLimit(void *gpu, unsigned *milliwatts) { *milliwatts = 700000; return OK; }
int nvmlDeviceGetTemperature(void *gpu, unsigned sensor, unsigned *celsius) {
  if (sensor != 0) return NOT_SUPPORTED;
  *celsius = 61;
  return OK;
}
int nvmlDeviceGetClockInfo(void *gpu, unsigned clock, unsigned *mhz) {
  *mhz = clock == 1 ? 1980 : clock == 2 ? 3201 : 7;
  return OK;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *gpu, unsigned long long *reasons) {
  *reasons = SECOND(gpu) ? 0x40 : 0x04;
  return OK;
}
