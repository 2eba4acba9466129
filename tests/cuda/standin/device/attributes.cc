// What the devices say about themselves: number, attributes, peer access, errors, default pools.
#include <cstdio>
#include <cstring>

#include "device.h"

using namespace standin;

namespace {

constexpr int kVersion = STANDIN_VERSION;  // of CUDA: build.py
// Stack and printf sizes and the like: what is set is told, and nothing follows from it.
size_t limits[cudaLimitPersistingL2CacheSize + 1] = {1024, 1 << 20, 8 << 20, 2, 2048, 64, 0};

std::map<cudaMemPool_t, uint64_t> thresholds;  // which bytes a pool may keep: told as they were set

bool is_device(const Machine& m, int device) { return device >= 0 && device < m.devices; }
cudaMemPool_t pool_of(int device) { return reinterpret_cast<cudaMemPool_t>(static_cast<intptr_t>(device + 1)); }

}  // namespace

STANDIN_API const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define STANDIN_NAME(name) \
  case name: return #name;
    STANDIN_NAME(cudaSuccess)
    STANDIN_NAME(cudaErrorInvalidValue)
    STANDIN_NAME(cudaErrorMemoryAllocation)
    STANDIN_NAME(cudaErrorInitializationError)
    STANDIN_NAME(cudaErrorInvalidPitchValue)
    STANDIN_NAME(cudaErrorNoDevice)
    STANDIN_NAME(cudaErrorInvalidDevice)
    STANDIN_NAME(cudaErrorMapBufferObjectFailed)
    STANDIN_NAME(cudaErrorInvalidResourceHandle)
    STANDIN_NAME(cudaErrorIllegalState)
    STANDIN_NAME(cudaErrorNotReady)
    STANDIN_NAME(cudaErrorIllegalAddress)
    STANDIN_NAME(cudaErrorPeerAccessAlreadyEnabled)
    STANDIN_NAME(cudaErrorPeerAccessNotEnabled)
    STANDIN_NAME(cudaErrorPeerAccessUnsupported)
    STANDIN_NAME(cudaErrorDeviceUninitialized)
    STANDIN_NAME(cudaErrorHostMemoryAlreadyRegistered)
    STANDIN_NAME(cudaErrorHostMemoryNotRegistered)
    STANDIN_NAME(cudaErrorNotPermitted)
    STANDIN_NAME(cudaErrorNotSupported)
#undef STANDIN_NAME
    default: return "cudaErrorUnknown";
  }
}
STANDIN_API const char* cudaGetErrorString(cudaError_t) { return "(stand-in device)"; }
STANDIN_API cudaError_t cudaDriverGetVersion(int* version) {
  *version = kVersion;
  return cudaSuccess;
}
STANDIN_API cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = kVersion;
  return cudaSuccess;
}

STANDIN_API cudaError_t cudaGetDeviceCount(int* n) {
  STANDIN_ENTER;
  *n = m.devices;
  return cudaSuccess;
}
STANDIN_API cudaError_t cudaGetDevice(int* device) {
  STANDIN_ENTER;
  *device = current_device();
  return cudaSuccess;
}
STANDIN_API cudaError_t cudaSetDevice(int device) {
  STANDIN_ENTER;
  if (!is_device(m, device)) return fail(cudaErrorInvalidDevice);
  current_device() = device;
  return cudaSuccess;
}

STANDIN_API cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  STANDIN_ENTER;
  if (!is_device(m, device)) return fail(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor: *value = 8; break;
    case cudaDevAttrWarpSize: *value = 32; break;
    case cudaDevAttrMultiProcessorCount: *value = 4; break;
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY: *value = 1024; break;
    case cudaDevAttrMaxBlockDimZ: *value = 64; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = 2048; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = 49152; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = 65536; break;
    case cudaDevAttrMaxGridDimX: *value = 2147483647; break;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ: *value = 65535; break;
    case cudaDevAttrMemoryPoolsSupported:
    case cudaDevAttrUnifiedAddressing: *value = 1; break;
    default: *value = 0;
  }
  return cudaSuccess;
}
STANDIN_API cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  STANDIN_ENTER;
  if (!is_device(m, device)) return fail(cudaErrorInvalidDevice);
  memset(static_cast<void*>(out), 0, sizeof *out);
  snprintf(out->name, sizeof out->name, "stand-in %d (host memory)", m.physical[device]);
  out->uuid.bytes[0] = static_cast<char>(m.physical[device] + 1);
  out->totalGlobalMem = m.total;
  out->warpSize = 32;
  out->maxThreadsPerBlock = 1024;
  out->major = 8;
  out->multiProcessorCount = 4;
  out->sharedMemPerBlock = 49152;
  out->maxThreadsPerMultiProcessor = 2048;
  out->pciBusID = m.physical[device];
  return cudaSuccess;
}
STANDIN_API cudaError_t cudaDeviceGetPCIBusId(char* id, int n, int device) {
  STANDIN_ENTER;
  if (!is_device(m, device)) return fail(cudaErrorInvalidDevice);
  snprintf(id, static_cast<size_t>(n), "0000:%02x:00.0", m.physical[device]);
  return cudaSuccess;
}
STANDIN_API cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* id) {
  STANDIN_ENTER;
  int bus = 0;
  if (sscanf(id, "0000:%x:00.0", reinterpret_cast<unsigned*>(&bus)) == 1)
    for (*device = 0; *device < m.devices; ++*device)
      if (m.physical[*device] == bus) return cudaSuccess;
  return fail(cudaErrorInvalidDevice);
}

// ---------------------------------------------------------------- limits

STANDIN_API cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  STANDIN_ENTER;
  if (limit < 0 || limit > cudaLimitPersistingL2CacheSize) return fail(cudaErrorInvalidValue);
  *value = limits[limit];
  return cudaSuccess;
}
STANDIN_API cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  STANDIN_ENTER;
  if (limit < 0 || limit > cudaLimitPersistingL2CacheSize) return fail(cudaErrorInvalidValue);
  limits[limit] = value;
  return cudaSuccess;
}

// ---------------------------------------------------------------- peer access

STANDIN_API cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  STANDIN_ENTER;
  if (!is_device(m, device) || !is_device(m, peer)) return fail(cudaErrorInvalidDevice);
  *can = m.peer_access && device != peer;
  return cudaSuccess;
}
STANDIN_API cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  STANDIN_ENTER;
  int device = current_device();
  if (!is_device(m, peer) || peer == device) return fail(cudaErrorInvalidDevice);
  if (flags) return fail(cudaErrorInvalidValue);
  if (!m.peer_access) return fail(cudaErrorPeerAccessUnsupported);
  if (m.peers[device][peer]) return fail(cudaErrorPeerAccessAlreadyEnabled);
  m.peers[device][peer] = true;
  return cudaSuccess;
}
STANDIN_API cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  STANDIN_ENTER;
  int device = current_device();
  if (!is_device(m, peer)) return fail(cudaErrorInvalidDevice);
  if (!m.peers[device][peer]) return fail(cudaErrorPeerAccessNotEnabled);
  wait_device(m, device);
  m.peers[device][peer] = false;
  return cudaSuccess;
}

// ---------------------------------------------------------------- default pools: what CuPy asks at its start

STANDIN_API cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  *pool = pool_of(device);
  return cudaSuccess;
}
STANDIN_API cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  *pool = pool_of(device);
  return cudaSuccess;
}
STANDIN_API cudaError_t cudaDeviceSetMemPool(int, cudaMemPool_t) { return cudaSuccess; }
STANDIN_API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }
STANDIN_API cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  STANDIN_ENTER;
  auto* number = static_cast<uint64_t*>(value);
  switch (attribute) {
    case cudaMemPoolAttrUsedMemCurrent:
    case cudaMemPoolAttrReservedMemCurrent:  // nothing is kept that is not used
      *number = 0;
      for (auto& [at, block] : m.blocks)
        if (block.kind == Block::kPool && pool_of(block.device) == pool) *number += block.size;
      return cudaSuccess;
    case cudaMemPoolAttrReleaseThreshold: *number = thresholds[pool]; return cudaSuccess;
    default: return fail(cudaErrorNotSupported);
  }
}
STANDIN_API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  STANDIN_ENTER;
  if (attribute == cudaMemPoolAttrReleaseThreshold) thresholds[pool] = *static_cast<uint64_t*>(value);
  return cudaSuccess;
}
STANDIN_API cudaError_t cudaProfilerStart() { return cudaSuccess; }
STANDIN_API cudaError_t cudaProfilerStop() { return cudaSuccess; }
