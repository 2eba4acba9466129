// Memory of the devices and page-locked memory of the host.
//
// A device allocation is a memfd mapped twice: where the program sees it, PROT_NONE but while a kernel runs, and an
// alias that only the stand-in's copies and libraries use. Importers of other processes hold a read lock on the memfd,
// so that a free while it is open elsewhere is noticed; the kernel drops the lock of a process that dies.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "device.h"

namespace standin {

namespace {

size_t round_to_page(size_t n) { return (n + 4095) & ~size_t{4095}; }

void poison(char* at, size_t n) { memset(at, 0xFD, n); }

bool is_open_elsewhere(int fd) {
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

cudaError_t allocate(Machine& m, void** out, size_t size, Block::Kind kind, int device) {
  *out = nullptr;
  if (!size) return cudaSuccess;
  size_t n = round_to_page(size);
  if (n < size || m.used[device] + n > m.total) return fail(cudaErrorMemoryAllocation);
  int fd = memfd_create("standin-memory", MFD_CLOEXEC);
  if (fd < 0) return fail(cudaErrorMemoryAllocation);
  if (ftruncate(fd, static_cast<off_t>(n))) {
    close(fd);
    return fail(cudaErrorMemoryAllocation);
  }
  Block block;
  block.kind = kind;
  block.device = device;
  block.id = (static_cast<uint64_t>(getpid()) << 32) | m.next_id++;
  if (cudaError_t error = map_block(m, fd, size, block, out)) return error;
  m.used[device] += n;
  poison(m.blocks[static_cast<char*>(*out)].alias, size);
  return cudaSuccess;
}

// Where a copy may read or write [p, p + n): device memory by its alias, host memory as it is.
char* place_of(Machine& m, const void* p, size_t n, bool* device) {
  auto i = find_block(m, p);
  *device = i != m.blocks.end() && on_device(i->second);
  return *device ? alias_of(m, p, n) : static_cast<char*>(const_cast<void*>(p));
}

struct Side {  // of a copy: rows of planes, each `pitch` bytes after the one before
  void* at;
  size_t pitch, plane;
  char* row(size_t y, size_t z) const { return static_cast<char*>(at) + y * pitch + z * plane; }
};
struct Box {
  size_t width, height, depth;  // bytes, rows, planes
};

// The bytes from the first to the last that a copy touches on one side.
size_t extent_of(const Side& side, const Box& box) {
  return (box.depth - 1) * side.plane + (box.height - 1) * side.pitch + box.width;
}

cudaError_t copy(const Side& to, const Side& from, const Box& box, cudaMemcpyKind kind, cudaStream_t s, bool waits) {
  STANDIN_ENTER;
  Stream* stream = find_stream(m, s);
  if (!stream) return fail(cudaErrorInvalidResourceHandle);
  if (!box.width || !box.height || !box.depth) return cudaSuccess;
  if (box.height * box.depth > 1 && (to.pitch < box.width || from.pitch < box.width))
    return fail(cudaErrorInvalidPitchValue);
  size_t written = extent_of(to, box), read = extent_of(from, box);
  bool to_device, from_device;
  if (!place_of(m, to.at, written, &to_device) || !place_of(m, from.at, read, &from_device))
    return misuse(cudaErrorInvalidValue, "a copy of %zu bytes to %zu goes beyond its allocation", read, written);
  bool kind_to = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  bool kind_from = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind != cudaMemcpyDefault && (kind_to != to_device || kind_from != from_device))
    return misuse(cudaErrorInvalidValue, "a copy of kind %d from %s to %s memory", static_cast<int>(kind),
                  from_device ? "device" : "host", to_device ? "device" : "host");
  bool pageable =
      (!to_device && find_block(m, to.at) == m.blocks.end()) || (!from_device && find_block(m, from.at) == m.blocks.end());
  auto completion = submit(m, stream, [&m, to, from, box, written, read] {
    bool unused;
    Side target = to, source = from;
    target.at = place_of(m, to.at, written, &unused);
    source.at = place_of(m, from.at, read, &unused);
    if (!target.at || !source.at) {
      misuse(cudaErrorIllegalAddress, "a queued copy of %zu bytes finds its memory freed", read);
      return;
    }
    for (size_t z = 0; z < box.depth; z++)
      for (size_t y = 0; y < box.height; y++) memmove(target.row(y, z), source.row(y, z), box.width);
  });
  auto& work = *m.queue.back();
  if (!to_device) work.host.push_back({static_cast<char*>(to.at), written});
  if (!from_device) work.host.push_back({static_cast<char*>(from.at), read});
  if (waits || pageable) wait(m, completion);
  return cudaSuccess;
}

cudaError_t copy(void* to, const void* from, size_t n, cudaMemcpyKind kind, cudaStream_t s, bool waits) {
  return copy(Side{to, n, n}, Side{const_cast<void*>(from), n, n}, Box{n, 1, 1}, kind, s, waits);
}

cudaError_t copy_box(const cudaMemcpy3DParms* p, cudaStream_t s, bool waits) {
  if (p->srcArray || p->dstArray) return fail(cudaErrorNotSupported);
  auto side = [](const cudaPitchedPtr& at, const cudaPos& pos) {
    size_t plane = at.pitch * at.ysize;
    return Side{static_cast<char*>(at.ptr) + pos.x + pos.y * at.pitch + pos.z * plane, at.pitch, plane};
  };
  Box box{p->extent.width, p->extent.height, p->extent.depth};
  return copy(side(p->dstPtr, p->dstPos), side(p->srcPtr, p->srcPos), box, p->kind, s, waits);
}

// Whether queued work uses page-locked memory of [p, p + n).
bool is_used(const Machine& m, const char* p, size_t n) {
  for (auto& work : m.queue)
    for (auto [at, size] : work->host)
      if (at < p + n && p < at + size) return true;
  return false;
}

// Whether each page of [p, p + n) is memory of this process.
bool is_mapped(char* p, size_t n) {
  auto first = reinterpret_cast<uintptr_t>(p) & ~uintptr_t{4095};
  size_t size = round_to_page(reinterpret_cast<uintptr_t>(p) + n - first);
  std::vector<unsigned char> pages(size / 4096);
  return mincore(reinterpret_cast<void*>(first), size, pages.data()) == 0;
}

}  // namespace

std::map<char*, Block>::iterator find_block(Machine& m, const void* p) {
  auto* at = static_cast<char*>(const_cast<void*>(p));
  auto i = m.blocks.upper_bound(at);
  if (i == m.blocks.begin()) return m.blocks.end();
  --i;
  return at < i->first + i->second.size ? i : m.blocks.end();
}

bool on_device(const Block& block) { return block.kind <= Block::kImported; }

char* alias_of(Machine& m, const void* p, size_t n) {
  auto i = find_block(m, p);
  if (i == m.blocks.end() || !on_device(i->second)) return nullptr;
  size_t offset = static_cast<size_t>(static_cast<const char*>(p) - i->first);
  return n <= i->second.size - offset ? i->second.alias + offset : nullptr;
}

cudaError_t map_block(Machine& m, int fd, size_t size, Block block, void** out) {
  size_t n = round_to_page(size);
  void* seen = mmap(nullptr, n, PROT_NONE, MAP_SHARED, fd, 0);
  void* alias = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (seen == MAP_FAILED || alias == MAP_FAILED) {
    if (seen != MAP_FAILED) munmap(seen, n);
    if (alias != MAP_FAILED) munmap(alias, n);
    close(fd);
    return fail(cudaErrorMapBufferObjectFailed);
  }
  block.size = size;
  block.alias = static_cast<char*>(alias);
  block.fd = fd;
  m.blocks[static_cast<char*>(seen)] = block;
  *out = seen;
  return cudaSuccess;
}

void unmap_block(Machine& m, std::map<char*, Block>::iterator i) {
  size_t n = round_to_page(i->second.size);
  if (i->second.kind != Block::kImported) {
    poison(i->second.alias, i->second.size);  // whoever still reads it sees it
    m.used[i->second.device] -= n;
  }
  munmap(i->first, n);
  munmap(i->second.alias, n);
  close(i->second.fd);
  m.blocks.erase(i);
}

void protect(Machine& m, int device, bool accessible) {
  for (auto& [at, block] : m.blocks)
    if (on_device(block) && (block.device == device || m.peers[device][block.device]))
      mprotect(at, round_to_page(block.size), accessible ? PROT_READ | PROT_WRITE : PROT_NONE);
}

}  // namespace standin

using namespace standin;

// For the doubles of libraries: where the host may touch [p, p + n) of device memory, null if that is no valid range.
STANDIN_API void* standin_alias(const void* p, size_t n) {
  Machine& m = machine();
  std::lock_guard<std::mutex> hold(m.lock);
  return alias_of(m, p, n);
}

// The device of an address; -1 for host memory.
STANDIN_API int standin_device_of(const void* p) {
  Machine& m = machine();
  std::lock_guard<std::mutex> hold(m.lock);
  auto i = find_block(m, p);
  return i == m.blocks.end() || !on_device(i->second) ? -1 : i->second.device;
}

STANDIN_API cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  STANDIN_ENTER;
  *total = m.total;
  *free = m.total - m.used[current_device()];
  return cudaSuccess;
}

STANDIN_API cudaError_t cudaMalloc(void** out, size_t size) {
  STANDIN_ENTER;
  return allocate(m, out, size, Block::kAllocated, current_device());
}
STANDIN_API cudaError_t cudaFree(void* p) {
  STANDIN_ENTER;
  if (!p) return cudaSuccess;
  auto i = m.blocks.find(static_cast<char*>(p));
  if (i == m.blocks.end() || i->second.kind > Block::kPool || i->second.free_pending)
    return misuse(cudaErrorInvalidValue, "cudaFree: not the start of an allocation, or freed already");
  if (i->second.kind == Block::kAllocated && is_open_elsewhere(i->second.fd))
    return misuse(cudaErrorIllegalState, "cudaFree: %zu bytes that another process has open", i->second.size);
  for (int device = 0; device < m.devices; device++) wait_device(m, device);
  i = m.blocks.find(static_cast<char*>(p));
  if (i == m.blocks.end()) return misuse(cudaErrorInvalidValue, "cudaFree: freed by another thread");
  unmap_block(m, i);
  return cudaSuccess;
}
STANDIN_API cudaError_t cudaMallocFromPoolAsync(void** out, size_t size, cudaMemPool_t, cudaStream_t s) {
  STANDIN_ENTER;
  Stream* stream = find_stream(m, s);
  if (!stream) return fail(cudaErrorInvalidResourceHandle);
  return allocate(m, out, size, Block::kPool, stream->device);
}
STANDIN_API cudaError_t cudaMallocAsync(void** out, size_t size, cudaStream_t s) {
  return cudaMallocFromPoolAsync(out, size, nullptr, s);
}
STANDIN_API cudaError_t cudaFreeAsync(void* p, cudaStream_t s) {
  STANDIN_ENTER;
  Stream* stream = find_stream(m, s);
  auto i = m.blocks.find(static_cast<char*>(p));
  if (!stream || i == m.blocks.end() || i->second.kind > Block::kPool || i->second.free_pending)
    return misuse(cudaErrorInvalidValue, "cudaFreeAsync: not the start of an allocation, or freed already");
  i->second.free_pending = true;
  submit(m, stream, [&m, p] { unmap_block(m, m.blocks.find(static_cast<char*>(p))); });
  return cudaSuccess;
}

STANDIN_API cudaError_t cudaHostAlloc(void** out, size_t size, unsigned) {
  STANDIN_ENTER;
  *out = mmap(nullptr, round_to_page(size), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (*out == MAP_FAILED) return fail(cudaErrorMemoryAllocation);
  Block block;
  block.size = size;
  block.kind = Block::kPinned;
  m.blocks[static_cast<char*>(*out)] = block;
  return cudaSuccess;
}
STANDIN_API cudaError_t cudaFreeHost(void* p) {
  STANDIN_ENTER;
  auto i = m.blocks.find(static_cast<char*>(p));
  if (i == m.blocks.end() || i->second.kind != Block::kPinned)
    return misuse(cudaErrorInvalidValue, "cudaFreeHost: not page-locked memory of cudaHostAlloc");
  for (int device = 0; device < m.devices; device++) wait_device(m, device);
  i = m.blocks.find(static_cast<char*>(p));
  munmap(p, round_to_page(i->second.size));
  m.blocks.erase(i);
  return cudaSuccess;
}
STANDIN_API cudaError_t cudaHostRegister(void* p, size_t size, unsigned flags) {
  STANDIN_ENTER;
  constexpr unsigned kFlags =
      cudaHostRegisterPortable | cudaHostRegisterMapped | cudaHostRegisterIoMemory | cudaHostRegisterReadOnly;
  auto* at = static_cast<char*>(p);
  if (!p || !size || flags & ~kFlags) return fail(cudaErrorInvalidValue);
  auto i = find_block(m, p), next = m.blocks.lower_bound(at);
  if (i == m.blocks.end() && next != m.blocks.end() && next->first < at + size) i = next;
  if (i != m.blocks.end()) return fail(on_device(i->second) ? cudaErrorInvalidValue : cudaErrorHostMemoryAlreadyRegistered);
  if (!is_mapped(at, size)) return fail(cudaErrorInvalidValue);
  Block block;
  block.size = size;
  block.kind = Block::kRegistered;
  m.blocks[at] = block;
  return cudaSuccess;
}
STANDIN_API cudaError_t cudaHostUnregister(void* p) {
  STANDIN_ENTER;
  auto i = m.blocks.find(static_cast<char*>(p));
  if (i == m.blocks.end() || i->second.kind != Block::kRegistered) return fail(cudaErrorHostMemoryNotRegistered);
  if (is_used(m, i->first, i->second.size))
    return misuse(cudaErrorIllegalState, "cudaHostUnregister: %zu bytes that queued work uses", i->second.size);
  m.blocks.erase(i);
  return cudaSuccess;
}

STANDIN_API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void* p) {
  STANDIN_ENTER;
  memset(out, 0, sizeof *out);
  auto i = find_block(m, p);
  if (i == m.blocks.end()) {
    out->type = cudaMemoryTypeUnregistered;
    out->device = -2;  // cudaInvalidDeviceId
    return cudaSuccess;
  }
  bool device = on_device(i->second);
  out->type = device ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
  out->device = i->second.device;
  out->devicePointer = const_cast<void*>(p);
  out->hostPointer = device ? nullptr : const_cast<void*>(p);
  return cudaSuccess;
}

STANDIN_API cudaError_t cudaMemcpy(void* to, const void* from, size_t n, cudaMemcpyKind kind) {
  return copy(to, from, n, kind, nullptr, true);
}
STANDIN_API cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t n, cudaMemcpyKind kind, cudaStream_t s) {
  return copy(to, from, n, kind, s, false);
}
STANDIN_API cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                                          size_t height, cudaMemcpyKind kind, cudaStream_t s) {
  return copy(Side{to, to_pitch, 0}, Side{const_cast<void*>(from), from_pitch, 0}, Box{width, height, 1}, kind, s, false);
}
STANDIN_API cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                                     size_t height, cudaMemcpyKind kind) {
  return copy(Side{to, to_pitch, 0}, Side{const_cast<void*>(from), from_pitch, 0}, Box{width, height, 1}, kind, nullptr,
              true);
}
STANDIN_API cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* p, cudaStream_t s) { return copy_box(p, s, false); }
STANDIN_API cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* p) { return copy_box(p, nullptr, true); }
STANDIN_API cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, size_t n) {
  return copy(to, from, n, cudaMemcpyDeviceToDevice, nullptr, true);
}
STANDIN_API cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t n,
                                            cudaStream_t s) {
  if (n && (standin_device_of(to) != to_device || standin_device_of(from) != from_device))
    return misuse(cudaErrorInvalidValue, "cudaMemcpyPeerAsync: memory of devices %d and %d is called that of %d and %d",
                  standin_device_of(from), standin_device_of(to), from_device, to_device);
  return copy(to, from, n, cudaMemcpyDeviceToDevice, s, false);
}
STANDIN_API cudaError_t cudaMemsetAsync(void* p, int value, size_t n, cudaStream_t s) {
  STANDIN_ENTER;
  Stream* stream = find_stream(m, s);
  if (!stream) return fail(cudaErrorInvalidResourceHandle);
  if (!n) return cudaSuccess;
  if (!alias_of(m, p, n)) return misuse(cudaErrorInvalidValue, "cudaMemsetAsync: not %zu bytes of device memory", n);
  submit(m, stream, [&m, p, value, n] {
    if (char* at = alias_of(m, p, n)) memset(at, value, n);
    else misuse(cudaErrorIllegalAddress, "a queued memset of %zu bytes finds its memory freed", n);
  });
  return cudaSuccess;
}
STANDIN_API cudaError_t cudaMemset(void* p, int value, size_t n) { return cudaMemsetAsync(p, value, n, nullptr); }
