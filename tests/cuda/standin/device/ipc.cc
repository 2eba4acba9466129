// Memory and events of other processes: a handle names the exporter's descriptor, /proc/<pid>/fd/<n>, which an importer
// opens anew. A dead exporter's handle cannot be opened; what is open already stays readable, as seen on GPUs.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "device.h"

using namespace standin;

namespace {

constexpr uint64_t kMemory = 0x314d454d44535453, kEvent = 0x3156455444535453;

int open_of_exporter(const Handle& handle) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", handle.pid, handle.fd);
  return open(path, O_RDWR | O_CLOEXEC);
}

template <class T>
void pack(T* out, const Handle& handle) {
  static_assert(sizeof handle <= sizeof *out);
  memset(out, 0, sizeof *out);
  memcpy(out, &handle, sizeof handle);
}

template <class T>
Handle unpack(const T& bytes) {
  Handle handle;
  memcpy(&handle, &bytes, sizeof handle);
  return handle;
}

}  // namespace

STANDIN_API cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* out, void* p) {
  STANDIN_ENTER;
  auto i = find_block(m, p);  // an interior pointer names the whole allocation, as on devices
  if (i == m.blocks.end() || i->second.kind != Block::kAllocated) return fail(cudaErrorInvalidValue);
  const Block& block = i->second;
  pack(out, Handle{kMemory, getpid(), block.fd, block.size, block.id, m.physical[block.device], 0});
  return cudaSuccess;
}

STANDIN_API cudaError_t cudaIpcOpenMemHandle(void** out, cudaIpcMemHandle_t bytes, unsigned flags) {
  STANDIN_ENTER;
  Handle handle = unpack(bytes);
  if (handle.magic != kMemory) return fail(cudaErrorInvalidResourceHandle);
  if (flags != cudaIpcMemLazyEnablePeerAccess) return fail(cudaErrorInvalidValue);
  if (handle.pid == getpid()) return fail(cudaErrorDeviceUninitialized);
  int device = current_device();
  if (handle.device != m.physical[device])
    return misuse(cudaErrorInvalidDevice, "cudaIpcOpenMemHandle: memory of device %d, opened under device %d", handle.device,
                  m.physical[device]);
  for (auto& [at, block] : m.blocks)
    if (block.kind == Block::kImported && block.id == handle.id) {
      block.opened++;
      *out = at;
      return cudaSuccess;
    }
  int fd = open_of_exporter(handle);
  if (fd < 0) return fail(cudaErrorMapBufferObjectFailed);
  struct flock lock{};
  lock.l_type = F_RDLCK;
  lock.l_whence = SEEK_SET;
  if (fcntl(fd, F_OFD_SETLK, &lock)) {
    close(fd);
    return fail(cudaErrorMapBufferObjectFailed);
  }
  Block block;
  block.kind = Block::kImported;
  block.device = device;
  block.id = handle.id;
  block.opened = 1;
  return map_block(m, fd, handle.size, block, out);
}

STANDIN_API cudaError_t cudaIpcCloseMemHandle(void* p) {
  STANDIN_ENTER;
  auto i = m.blocks.find(static_cast<char*>(p));
  if (i == m.blocks.end() || i->second.kind != Block::kImported)
    return misuse(cudaErrorInvalidValue, "cudaIpcCloseMemHandle: not open memory of another process");
  if (--i->second.opened) return cudaSuccess;
  for (int device = 0; device < m.devices; device++) wait_device(m, device);
  unmap_block(m, m.blocks.find(static_cast<char*>(p)));
  return cudaSuccess;
}

STANDIN_API cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* out, cudaEvent_t e) {
  STANDIN_ENTER;
  auto* event = reinterpret_cast<Event*>(e);
  if (!m.events.count(event) || !event->shared || event->imported) return fail(cudaErrorInvalidResourceHandle);
  pack(out, Handle{kEvent, getpid(), event->fd, 0, 0, m.physical[event->device], 0});
  return cudaSuccess;
}

STANDIN_API cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* out, cudaIpcEventHandle_t bytes) {
  STANDIN_ENTER;
  Handle handle = unpack(bytes);
  if (handle.magic != kEvent || handle.pid == getpid()) return fail(cudaErrorInvalidResourceHandle);
  int fd = open_of_exporter(handle);
  if (fd < 0) return fail(cudaErrorMapBufferObjectFailed);
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) {
    close(fd);
    return fail(cudaErrorMapBufferObjectFailed);
  }
  auto* event = new Event;
  event->imported = true;
  event->device = current_device();
  event->flags = cudaEventDisableTiming | cudaEventInterprocess;
  event->fd = fd;
  event->shared = static_cast<SharedEvent*>(page);
  m.events.insert(event);
  *out = reinterpret_cast<cudaEvent_t>(event);
  return cudaSuccess;
}
