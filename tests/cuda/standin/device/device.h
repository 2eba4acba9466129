// The stand-in CUDA device: the part of the CUDA runtime and driver interfaces that CuPy calls, over host memory.
//
//   work.cc       a queue of work that is done late, in any order that streams and events permit; streams, events
//   memory.cc     allocations, copies, page-locked memory, pointers
//   ipc.cc        memory and events of other processes
//   nccl.cc       communicators, collectives and messages of NCCL (nccl.h, reduce.h)
//   attributes.cc devices, their attributes, peer access, names of errors, default pools
//   driver.cc     modules and launches: kernels are shared objects made by the host's compiler
//   not_supported.cc  what CuPy links against and the stand-in does not have
//
// Stricter than a GPU: device memory is PROT_NONE to the host, filled with 0xFD at allocation and free; a forked child
// has no context; every misuse that a GPU leaves undefined is an error and is counted (standin_misuses).
//
// Environment, read at the first call:
//   STANDIN_SEED     order of the work (1)
//   STANDIN_LATE_US  pause before each piece of work that the background thread does (2,000)
//   STANDIN_BYTES    memory of each device (1 GiB)
//   STANDIN_DEVICES  number of devices (2)
//   STANDIN_PEER     0: no peer access between devices (1)
//   CUDA_VISIBLE_DEVICES  numbers of the devices that the process sees (all)
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#define STANDIN_API extern "C" __attribute__((visibility("default")))

namespace standin {

constexpr int kMaxDevices = 8;

// Whether a piece of work, of this or another process, has been done.
struct Completion {
  std::atomic<bool> done{false};
  std::atomic<uint32_t>* shared = nullptr;  // an interprocess event's count of records done
  uint32_t target = 0;
  std::shared_ptr<std::atomic<bool>> cancelled;  // of a communicator: nobody waits once it is aborted
  bool get() const {
    if (cancelled && cancelled->load()) return true;
    return shared ? static_cast<int32_t>(shared->load() - target) >= 0 : done.load();
  }
};
using CompletionRef = std::shared_ptr<Completion>;

struct Work {
  std::vector<CompletionRef> after;
  std::function<void()> run;
  bool unlocked = false;  // host functions run without the lock: they may need Python's
  std::vector<std::pair<const char*, size_t>> host;  // page-locked memory that it uses
  int device = 0;
  CompletionRef completion = std::make_shared<Completion>();
};

struct Stream {
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  CompletionRef tail;
  std::vector<CompletionRef> after;  // events that the next piece of work waits for
};

struct SharedEvent {  // the first bytes of a memfd
  std::atomic<uint32_t> recorded, done;
};

struct Event {
  int device = 0;
  unsigned flags = 0;
  CompletionRef completion;
  std::shared_ptr<std::chrono::steady_clock::time_point> time = std::make_shared<std::chrono::steady_clock::time_point>();
  SharedEvent* shared = nullptr;
  int fd = -1;
  bool imported = false;
};

struct Block {
  enum Kind { kAllocated, kPool, kImported, kPinned, kRegistered } kind = kAllocated;
  int device = 0;
  size_t size = 0;
  char* alias = nullptr;  // the same bytes, readable and writable: for copies and libraries
  int fd = -1;
  uint64_t id = 0;
  int opened = 0;             // of an import: how often
  bool free_pending = false;  // of a pool's block: its free is queued
};

// A memory or event handle; fits in CUDA's 64 bytes.
struct Handle {
  uint64_t magic;
  int32_t pid, fd;
  uint64_t size, id;
  int32_t device, unused;
};

struct Machine {
  std::mutex lock;
  std::condition_variable changed;
  std::vector<std::shared_ptr<Work>> queue;
  std::vector<std::shared_ptr<Work>> running;  // host functions
  std::set<Stream*> streams;
  std::set<Event*> events;
  Stream null[kMaxDevices];
  std::map<char*, Block> blocks;
  std::mt19937 random;
  int devices = 0;
  int physical[kMaxDevices] = {};  // the number on the machine, of each device that the process sees
  size_t total = 0;
  size_t used[kMaxDevices] = {};
  bool peers[kMaxDevices][kMaxDevices] = {};  // [accessing][accessed]
  bool peer_access = true;
  uint64_t next_id = 1;
  pid_t owner = 0;
  bool stopped = false;
  bool paused = false;  // the background thread does nothing
  std::atomic<long>* misuses = nullptr;  // shared with forked children
  long late_us = 0;
  Machine();
};

Machine& machine();
int& current_device();  // of the calling thread
cudaError_t fail(cudaError_t error);

// Prints the misuse, counts it and returns `error`.
cudaError_t misuse(cudaError_t error, const char* format, ...) __attribute__((format(printf, 2, 3)));

// cudaSuccess, or why the calling process or thread may not use the device. The first call makes the context.
cudaError_t context(const char* where);

#define STANDIN_ENTER_AS(type)                                                           \
  if (cudaError_t error = ::standin::context(__func__)) return static_cast<type>(error); \
  ::standin::Machine& m = ::standin::machine();                                          \
  std::lock_guard<std::mutex> hold(m.lock)
#define STANDIN_ENTER STANDIN_ENTER_AS(cudaError_t)
#define STANDIN_ENTER_DRIVER STANDIN_ENTER_AS(CUresult)

// ---- work.cc
Stream* find_stream(Machine& m, cudaStream_t s);
CompletionRef submit(Machine& m, Stream* stream, std::function<void()> run, bool unlocked = false);
void wait(Machine& m, const CompletionRef& completion);
void wait_device(Machine& m, int device);

// ---- memory.cc
std::map<char*, Block>::iterator find_block(Machine& m, const void* p);
bool on_device(const Block& block);
// The alias of [p, p + n); null if the range is not within one device allocation.
char* alias_of(Machine& m, const void* p, size_t n);
cudaError_t map_block(Machine& m, int fd, size_t size, Block block, void** out);
void unmap_block(Machine& m, std::map<char*, Block>::iterator i);
// Gives kernels of `device` access to what that device may reach, or takes it away.
void protect(Machine& m, int device, bool accessible);

}  // namespace standin
