// The queue of work, and the streams and events that order it.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "device.h"

namespace standin {

namespace {

thread_local cudaError_t last_error = cudaSuccess;
thread_local int device_of_thread = 0;
thread_local bool in_host_function = false;

long setting(const char* name, long otherwise) {
  const char* text = getenv(name);
  return text ? atol(text) : otherwise;
}

bool is_ready(const Work& work) {
  return std::all_of(work.after.begin(), work.after.end(), [](const CompletionRef& c) { return c->get(); });
}

// Does one piece of work that may be done now, chosen at random; false if there is none.
bool do_one(Machine& m) {
  std::vector<size_t> ready;
  for (size_t i = 0; i < m.queue.size(); i++)
    if (is_ready(*m.queue[i])) ready.push_back(i);
  if (ready.empty()) return false;
  size_t i = ready[m.random() % ready.size()];
  auto work = m.queue[i];
  m.queue.erase(m.queue.begin() + static_cast<long>(i));
  if (work->unlocked) {
    m.running.push_back(work);
    m.lock.unlock();
    in_host_function = true;
    work->run();
    in_host_function = false;
    m.lock.lock();
    m.running.erase(std::find(m.running.begin(), m.running.end(), work));
  } else {
    work->run();
  }
  work->completion->done = true;
  m.changed.notify_all();
  return true;
}

void run_background() {
  Machine& m = machine();
  for (;;) {
    std::this_thread::sleep_for(std::chrono::microseconds(m.late_us));
    std::unique_lock<std::mutex> hold(m.lock);
    if (m.stopped) return;
    if (m.paused || (!do_one(m) && m.queue.empty())) m.changed.wait_for(hold, std::chrono::milliseconds(50));
  }
}

bool is_blocking(const Stream* s) { return !(s->flags & cudaStreamNonBlocking); }

// What a wait for the event waits for now.
CompletionRef completion_of(Event* event) {
  if (!event->imported) return event->completion;
  auto completion = std::make_shared<Completion>();
  completion->shared = &event->shared->done;
  completion->target = event->shared->recorded;
  return completion;
}

Event* find_event(Machine& m, cudaEvent_t e) {
  auto* event = reinterpret_cast<Event*>(e);
  return m.events.count(event) ? event : nullptr;
}

}  // namespace

Machine::Machine()
    : random(static_cast<unsigned>(setting("STANDIN_SEED", 1))),
      devices(static_cast<int>(setting("STANDIN_DEVICES", 2))),
      total(static_cast<size_t>(setting("STANDIN_BYTES", 1L << 30))),
      peer_access(setting("STANDIN_PEER", 1) != 0),
      late_us(setting("STANDIN_LATE_US", 2000)) {
  devices = std::min(std::max(devices, 1), kMaxDevices);
  int all = devices;
  for (int i = 0; i < all; i++) physical[i] = i;
  if (const char* visible = getenv("CUDA_VISIBLE_DEVICES")) {
    devices = 0;
    for (int number, n; devices < all && sscanf(visible, "%d%n", &number, &n) == 1 && number >= 0 && number < all;) {
      physical[devices++] = number;  // a number that there is not ends the list
      visible += n;
      if (*visible == ',') visible++;
    }
  }
  for (int i = 0; i < kMaxDevices; i++) null[i].device = i;
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) abort();
  misuses = new (page) std::atomic<long>(0);
}

Machine& machine() {
  static Machine* m = new Machine;  // never destroyed: its thread outlives main
  return *m;
}

int& current_device() { return device_of_thread; }

cudaError_t fail(cudaError_t error) { return last_error = error; }

cudaError_t misuse(cudaError_t error, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("stand-in device: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  ++*machine().misuses;
  return fail(error);
}

cudaError_t context(const char* where) {
  Machine& m = machine();
  if (!m.devices) return fail(cudaErrorNoDevice);
  if (in_host_function) return misuse(cudaErrorNotPermitted, "%s: called by a host function of a stream", where);
  if (m.owner == getpid()) return cudaSuccess;
  if (m.owner) return misuse(cudaErrorInitializationError, "%s: called in a forked child", where);
  std::lock_guard<std::mutex> hold(m.lock);
  if (!m.owner) {
    m.owner = getpid();
    std::thread(run_background).detach();
  }
  return cudaSuccess;
}

Stream* find_stream(Machine& m, cudaStream_t s) {
  if (!s || s == cudaStreamLegacy || s == cudaStreamPerThread) return &m.null[current_device()];
  auto* stream = reinterpret_cast<Stream*>(s);
  return m.streams.count(stream) ? stream : nullptr;
}

CompletionRef submit(Machine& m, Stream* stream, std::function<void()> run, bool unlocked) {
  auto work = std::make_shared<Work>();
  work->after = std::move(stream->after);
  stream->after.clear();
  work->device = stream->device;
  work->unlocked = unlocked;
  if (stream->tail) work->after.push_back(stream->tail);
  Stream* null = &m.null[stream->device];
  if (stream == null) {
    for (Stream* other : m.streams)
      if (other->device == stream->device && is_blocking(other) && other->tail) work->after.push_back(other->tail);
  } else if (is_blocking(stream) && null->tail) {
    work->after.push_back(null->tail);
  }
  work->run = std::move(run);
  stream->tail = work->completion;
  m.queue.push_back(work);
  m.changed.notify_all();
  return work->completion;
}

void wait(Machine& m, const CompletionRef& completion) {
  while (completion && !completion->get())
    if (!do_one(m)) {  // it waits for another process or thread
      m.lock.unlock();
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      m.lock.lock();
    }
}

void wait_device(Machine& m, int device) {
  std::vector<CompletionRef> pending;
  for (auto* list : {&m.queue, &m.running})
    for (auto& work : *list)
      if (work->device == device) pending.push_back(work->completion);
  for (auto& completion : pending) wait(m, completion);
}

}  // namespace standin

using namespace standin;

STANDIN_API cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
STANDIN_API cudaError_t cudaPeekAtLastError() { return last_error; }

// For the stand-in's Python side: the number of misuses so far, of this process and its forked children.
STANDIN_API long standin_misuses() { return machine().misuses->load(); }

// Work is done only by those who wait for it, or, with 0, in the background again.
STANDIN_API void standin_pause(int paused) {
  Machine& m = machine();
  std::lock_guard<std::mutex> hold(m.lock);
  m.paused = paused != 0;
  m.changed.notify_all();
}

// The device of a stream; -1: not a stream of this process. The null stream is the current device's.
STANDIN_API int standin_stream_device(cudaStream_t s) {
  Machine& m = machine();
  std::lock_guard<std::mutex> hold(m.lock);
  Stream* stream = find_stream(m, s);
  return stream ? stream->device : -1;
}

// Ends the background thread, before the interpreter whose functions it may call. Work that waits for other processes is
// given up: they may be dead.
STANDIN_API void standin_stop() {
  Machine& m = machine();
  if (m.owner != getpid()) return;
  std::unique_lock<std::mutex> hold(m.lock);
  auto last = std::chrono::steady_clock::now();
  while (!m.queue.empty() || !m.running.empty()) {
    if (do_one(m)) {
      last = std::chrono::steady_clock::now();
      continue;
    }
    if (m.running.empty() && std::chrono::steady_clock::now() - last > std::chrono::milliseconds(500)) break;
    hold.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    hold.lock();
  }
  m.stopped = true;
}

STANDIN_API cudaError_t cudaDeviceSynchronize() {
  STANDIN_ENTER;
  wait_device(m, current_device());
  return cudaSuccess;
}

// ---------------------------------------------------------------- streams

STANDIN_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t* out, unsigned flags, int priority) {
  STANDIN_ENTER;
  if (flags & ~unsigned{cudaStreamNonBlocking}) return fail(cudaErrorInvalidValue);
  auto* stream = new Stream;
  stream->device = current_device();
  stream->flags = flags;
  stream->priority = std::clamp(priority, -5, 0);
  m.streams.insert(stream);
  *out = reinterpret_cast<cudaStream_t>(stream);
  return cudaSuccess;
}
STANDIN_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags) {
  return cudaStreamCreateWithPriority(out, flags, 0);
}
STANDIN_API cudaError_t cudaStreamCreate(cudaStream_t* out) { return cudaStreamCreateWithPriority(out, 0, 0); }
STANDIN_API cudaError_t cudaStreamDestroy(cudaStream_t s) {
  STANDIN_ENTER;
  auto* stream = reinterpret_cast<Stream*>(s);
  if (!m.streams.erase(stream)) return misuse(cudaErrorInvalidResourceHandle, "cudaStreamDestroy: not a stream");
  delete stream;  // its queued work keeps its order by its own references
  return cudaSuccess;
}
STANDIN_API cudaError_t cudaStreamGetFlags(cudaStream_t s, unsigned* flags) {
  STANDIN_ENTER;
  Stream* stream = find_stream(m, s);
  if (!stream) return fail(cudaErrorInvalidResourceHandle);
  *flags = stream->flags;
  return cudaSuccess;
}
STANDIN_API cudaError_t cudaStreamGetPriority(cudaStream_t s, int* priority) {
  STANDIN_ENTER;
  Stream* stream = find_stream(m, s);
  if (!stream) return fail(cudaErrorInvalidResourceHandle);
  *priority = stream->priority;
  return cudaSuccess;
}
STANDIN_API cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  STANDIN_ENTER;
  Stream* stream = find_stream(m, s);
  if (!stream) return fail(cudaErrorInvalidResourceHandle);
  if (!stream->after.empty() || stream == &m.null[stream->device]) submit(m, stream, [] {});
  wait(m, CompletionRef(stream->tail));  // a copy: the stream may be destroyed meanwhile
  return cudaSuccess;
}
STANDIN_API cudaError_t cudaStreamQuery(cudaStream_t s) {
  STANDIN_ENTER;
  Stream* stream = find_stream(m, s);
  if (!stream) return fail(cudaErrorInvalidResourceHandle);
  bool done = !stream->tail || stream->tail->get();
  for (auto& completion : stream->after) done = done && completion->get();
  return done ? cudaSuccess : cudaErrorNotReady;
}
STANDIN_API cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
STANDIN_API cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t function, void* data) {
  STANDIN_ENTER;
  Stream* stream = find_stream(m, s);
  if (!stream) return fail(cudaErrorInvalidResourceHandle);
  submit(m, stream, [function, data] { function(data); }, true);
  return cudaSuccess;
}

STANDIN_API cudaError_t cudaStreamAddCallback(cudaStream_t s, cudaStreamCallback_t function, void* data, unsigned flags) {
  STANDIN_ENTER;
  Stream* stream = find_stream(m, s);
  if (!stream) return fail(cudaErrorInvalidResourceHandle);
  if (flags) return fail(cudaErrorInvalidValue);
  submit(m, stream, [s, function, data] { function(s, cudaSuccess, data); }, true);
  return cudaSuccess;
}

// ---------------------------------------------------------------- events

STANDIN_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned flags) {
  STANDIN_ENTER;
  if (flags & ~unsigned{cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess})
    return fail(cudaErrorInvalidValue);
  if ((flags & cudaEventInterprocess) && !(flags & cudaEventDisableTiming)) return fail(cudaErrorInvalidValue);
  auto event = std::make_unique<Event>();
  event->device = current_device();
  event->flags = flags;
  if (flags & cudaEventInterprocess) {
    event->fd = memfd_create("standin-event", MFD_CLOEXEC);
    if (event->fd < 0 || ftruncate(event->fd, 4096)) return fail(cudaErrorMemoryAllocation);
    void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, event->fd, 0);
    if (page == MAP_FAILED) return fail(cudaErrorMemoryAllocation);
    event->shared = static_cast<SharedEvent*>(page);
  }
  m.events.insert(event.get());
  *out = reinterpret_cast<cudaEvent_t>(event.release());
  return cudaSuccess;
}
STANDIN_API cudaError_t cudaEventCreate(cudaEvent_t* out) { return cudaEventCreateWithFlags(out, 0); }
STANDIN_API cudaError_t cudaEventDestroy(cudaEvent_t e) {
  STANDIN_ENTER;
  Event* event = find_event(m, e);
  if (!event) return misuse(cudaErrorInvalidResourceHandle, "cudaEventDestroy: not an event");
  if (event->fd >= 0) close(event->fd);
  m.events.erase(event);
  delete event;  // the shared page stays mapped: queued records may still write to it
  return cudaSuccess;
}
STANDIN_API cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  STANDIN_ENTER;
  Event* event = find_event(m, e);
  Stream* stream = find_stream(m, s);
  if (!event || !stream) return fail(cudaErrorInvalidResourceHandle);
  if (event->device != stream->device)
    return misuse(cudaErrorInvalidResourceHandle, "cudaEventRecord: an event of device %d on a stream of device %d",
                  event->device, stream->device);
  if (SharedEvent* shared = event->shared) {
    uint32_t n = shared->recorded.fetch_add(1) + 1;
    submit(m, stream, [shared, n] {
      // Never backwards: an event recorded on two streams wakes its waiters early, and loses none.
      uint32_t done = shared->done;
      while (static_cast<int32_t>(n - done) > 0 && !shared->done.compare_exchange_weak(done, n)) {
      }
    });
    event->completion = std::make_shared<Completion>();
    event->completion->shared = &shared->done;
    event->completion->target = n;
  } else {
    bool timed = !(event->flags & cudaEventDisableTiming);
    auto time = event->time;  // the event may be destroyed before this runs
    event->completion = submit(m, stream, [time, timed] {
      if (timed) *time = std::chrono::steady_clock::now();
    });
  }
  return cudaSuccess;
}
STANDIN_API cudaError_t cudaEventQuery(cudaEvent_t e) {
  STANDIN_ENTER;
  Event* event = find_event(m, e);
  if (!event) return fail(cudaErrorInvalidResourceHandle);
  auto completion = completion_of(event);
  return !completion || completion->get() ? cudaSuccess : cudaErrorNotReady;
}
STANDIN_API cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  STANDIN_ENTER;
  Event* event = find_event(m, e);
  if (!event) return fail(cudaErrorInvalidResourceHandle);
  wait(m, completion_of(event));
  return cudaSuccess;
}
STANDIN_API cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  STANDIN_ENTER;
  Event *first = find_event(m, begin), *second = find_event(m, end);
  if (!first || !second || (first->flags | second->flags) & cudaEventDisableTiming || !first->completion ||
      !second->completion || first->device != second->device)
    return fail(cudaErrorInvalidResourceHandle);
  if (!first->completion->get() || !second->completion->get()) return fail(cudaErrorNotReady);
  *ms = std::chrono::duration<float, std::milli>(*second->time - *first->time).count();
  return cudaSuccess;
}
STANDIN_API cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
  STANDIN_ENTER;
  Event* event = find_event(m, e);
  Stream* stream = find_stream(m, s);
  if (!event || !stream) return fail(cudaErrorInvalidResourceHandle);
  if (auto completion = completion_of(event)) stream->after.push_back(completion);
  return cudaSuccess;
}
