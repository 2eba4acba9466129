// The driver's interface: contexts, modules and launches.
//
// A module is a shared object that compile.py makes of a kernel's source with the host's compiler. For each kernel it
// has pack_<name>(parameters), which copies the arguments of a launch, and run_<name>(copy, grid, block, shared bytes).
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

#include "device.h"

using namespace standin;

namespace {

struct Module {
  void* library;
  int device;
};

struct Function {
  void* (*pack)(void**);
  void (*run)(void*, const unsigned*, const unsigned*, unsigned);
  int device;
};

constexpr char kMagic[] = "STANDIN1\n";  // what compile.py puts ahead of the path

}  // namespace

STANDIN_API CUresult cuInit(unsigned) { return static_cast<CUresult>(context(__func__)); }
STANDIN_API CUresult cuDriverGetVersion(int* version) { return static_cast<CUresult>(cudaDriverGetVersion(version)); }
STANDIN_API CUresult cuGetErrorName(CUresult error, const char** name) {
  *name = cudaGetErrorName(static_cast<cudaError_t>(error));
  return CUDA_SUCCESS;
}
STANDIN_API CUresult cuGetErrorString(CUresult, const char** text) {
  *text = "(stand-in device)";
  return CUDA_SUCCESS;
}
STANDIN_API CUresult cuCtxGetCurrent(CUcontext* out) {
  STANDIN_ENTER_DRIVER;
  *out = reinterpret_cast<CUcontext>(static_cast<intptr_t>(current_device() + 1));
  return CUDA_SUCCESS;
}
STANDIN_API CUresult cuCtxSetCurrent(CUcontext context) {
  return static_cast<CUresult>(cudaSetDevice(static_cast<int>(reinterpret_cast<intptr_t>(context) - 1)));
}
STANDIN_API CUresult cuCtxGetDevice(CUdevice* device) { return static_cast<CUresult>(cudaGetDevice(device)); }
STANDIN_API CUresult cuStreamGetCtx(CUstream s, CUcontext* out) {
  STANDIN_ENTER_DRIVER;
  Stream* stream = find_stream(m, reinterpret_cast<cudaStream_t>(s));
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<CUcontext>(static_cast<intptr_t>(stream->device + 1));
  return CUDA_SUCCESS;
}
STANDIN_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) { return CUDA_SUCCESS; }

STANDIN_API CUresult cuModuleLoadData(CUmodule* out, const void* image) {
  STANDIN_ENTER_DRIVER;
  constexpr size_t kLength = sizeof kMagic - 1;
  const auto* bytes = static_cast<const char*>(image);
  if (memcmp(bytes, kMagic, kLength) != 0) return CUDA_ERROR_INVALID_IMAGE;
  std::string path(bytes + kLength, strcspn(bytes + kLength, "\n"));
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fprintf(stderr, "stand-in device: cuModuleLoadData: %s\n", dlerror());
    return CUDA_ERROR_INVALID_IMAGE;
  }
  *out = reinterpret_cast<CUmodule>(new Module{library, current_device()});
  return CUDA_SUCCESS;
}
STANDIN_API CUresult cuModuleUnload(CUmodule) {
  return CUDA_SUCCESS;  // queued launches may still need it
}
STANDIN_API CUresult cuModuleGetFunction(CUfunction* out, CUmodule handle, const char* name) {
  auto* module = reinterpret_cast<Module*>(handle);
  void* pack = dlsym(module->library, (std::string("pack_") + name).c_str());
  void* run = dlsym(module->library, (std::string("run_") + name).c_str());
  if (!pack || !run) return CUDA_ERROR_NOT_FOUND;
  auto* function = new Function{};
  memcpy(&function->pack, &pack, sizeof pack);
  memcpy(&function->run, &run, sizeof run);
  function->device = module->device;
  *out = reinterpret_cast<CUfunction>(function);
  return CUDA_SUCCESS;
}
STANDIN_API CUresult cuModuleGetGlobal_v2(CUdeviceptr*, size_t*, CUmodule, const char*) { return CUDA_ERROR_NOT_FOUND; }
STANDIN_API CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction) {
  *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
  return CUDA_SUCCESS;
}
STANDIN_API CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }
STANDIN_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* n, CUfunction, int, size_t) {
  *n = 2;
  return CUDA_SUCCESS;
}
STANDIN_API CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction, CUoccupancyB2DSize, size_t, int) {
  *grid = 8;
  *block = 256;
  return CUDA_SUCCESS;
}

namespace {

std::atomic<long> launches{0};

}  // namespace

// For the stand-in's Python side: the kernels that this process has launched so far.
STANDIN_API long standin_launches() { return launches; }

STANDIN_API CUresult cuLaunchKernel(CUfunction handle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                                    unsigned block_y, unsigned block_z, unsigned shared, CUstream s, void** parameters,
                                    void**) {
  STANDIN_ENTER_DRIVER;
  auto* function = reinterpret_cast<Function*>(handle);
  Stream* stream = find_stream(m, reinterpret_cast<cudaStream_t>(s));
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  int device = current_device();
  if (stream->device != device || function->device != device) {
    misuse(cudaErrorInvalidResourceHandle, "cuLaunchKernel: current device %d, the stream is of device %d, the kernel of %d",
           device, stream->device, function->device);
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (!grid_x || !grid_y || !grid_z || !block_x || !block_y || !block_z || grid_x > 2147483647u || grid_y > 65535 ||
      grid_z > 65535 || block_z > 64 || uint64_t{block_x} * block_y * block_z > 1024 || shared > 49152)
    return CUDA_ERROR_INVALID_VALUE;
  ++launches;
  void* arguments = function->pack(parameters);
  submit(m, stream, [&m, device, function, arguments, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared] {
    const unsigned grid[3] = {grid_x, grid_y, grid_z}, block[3] = {block_x, block_y, block_z};
    protect(m, device, true);
    function->run(arguments, grid, block, shared);
    protect(m, device, false);
  });
  return CUDA_SUCCESS;
}

// ---- words in page-locked memory that streams write and wait for

namespace {

// The word at an address for GPUs; null: it is not in page-locked memory.
std::atomic<uint32_t>* find_word(Machine& m, CUdeviceptr address) {
  static_assert(sizeof(std::atomic<uint32_t>) == 4 && std::atomic<uint32_t>::is_always_lock_free);
  auto* at = reinterpret_cast<char*>(address);
  auto i = find_block(m, at);
  if (i == m.blocks.end() || on_device(i->second) || address % 4 || at + 4 > i->first + i->second.size) return nullptr;
  return reinterpret_cast<std::atomic<uint32_t>*>(at);
}

}  // namespace

STANDIN_API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* p, unsigned flags) {
  STANDIN_ENTER_DRIVER;
  auto i = find_block(m, p);
  if (flags || i == m.blocks.end() || on_device(i->second)) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUdeviceptr>(p);
  return CUDA_SUCCESS;
}
STANDIN_API CUresult cuStreamWriteValue32_v2(CUstream s, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  STANDIN_ENTER_DRIVER;
  Stream* stream = find_stream(m, reinterpret_cast<cudaStream_t>(s));
  auto* word = find_word(m, address);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (!word || flags) return CUDA_ERROR_INVALID_VALUE;
  submit(m, stream, [word, value] { word->store(value); });
  return CUDA_SUCCESS;
}
STANDIN_API CUresult cuStreamWaitValue32_v2(CUstream s, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  STANDIN_ENTER_DRIVER;
  Stream* stream = find_stream(m, reinterpret_cast<cudaStream_t>(s));
  auto* word = find_word(m, address);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (!word || flags != CU_STREAM_WAIT_VALUE_GEQ) return CUDA_ERROR_INVALID_VALUE;
  auto completion = std::make_shared<Completion>();
  completion->shared = word;
  completion->target = value;
  stream->after.push_back(completion);
  return CUDA_SUCCESS;
}

// NVRTC looks for private tables of the driver when a libcuda.so.1 is there; there are none, and it goes on without.
STANDIN_API CUresult cuGetExportTable(const void** table, const CUuuid*) {
  *table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}
