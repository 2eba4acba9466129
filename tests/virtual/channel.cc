// A channel between the virtual processes of ledger.cc: ipc/channel/channel.cc, segment.cc and statistics_and_close.cc as they are, with
// segments of two small cells (run.sh), so that the chain grows and is left all the time.
//
// Each message carries its number and up to two blocks that are filled with it; some are too large for a cell. A process
// has one view of the channel, which its threads use under a lock, as under the GIL. What goes through must be whole,
// and from one thread to the next nothing may be ordered by anything but the channel's own words.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <atomic>

#include "virtual.h"

#include "shim.h"
#include "ipc/channel/channel.h"
#include "ipc/liveness.h"

// ---- the interpreter, as far as the channel asks
static thread_local bool failed = false;  // an exception is set
static PyTypeObject block_object = {};
struct BlockObject {
  PyObject head;
  void* base;
  size_t nbytes;
};
extern "C" {
void PyErr_Clear() { failed = false; }
PyObject* PyErr_Occurred() { return failed ? reinterpret_cast<PyObject*>(&block_object) : nullptr; }
PyObject* PyErr_NoMemory() { return failed = true, nullptr; }
void PyErr_Fetch(PyObject** type, PyObject**, PyObject**) {
  *type = failed ? reinterpret_cast<PyObject*>(1) : nullptr, failed = false;
}
void PyErr_Restore(PyObject* type, PyObject*, PyObject*) { failed = type != nullptr; }
int PyErr_ExceptionMatches(PyObject*) { return failed; }
PyObject* PyExc_RuntimeError = nullptr;
void _Py_Dealloc(PyObject* o) {
  shmtensor::virtual_drop(reinterpret_cast<BlockObject*>(o)->base);
  delete reinterpret_cast<BlockObject*>(o);
}
}

namespace shmtensor {

#define REQUIRE(condition)                                                    \
  do {                                                                        \
    if (!(condition)) fprintf(stderr, "channel: %s\n", #condition), _exit(1); \
  } while (0)

Raised raise(const char*, const char*, ...) { return failed = true, Raised{}; }
PyObject* raise_allocation_failure(const char*) { return failed = true, nullptr; }

bool virtual_hold(const Handle& handle, void** base, size_t* nbytes) {
  Domain* d = here_domain();
  const char* why = nullptr;
  if (!d) return false;
  Locked lock(*d);
  failed = hold_locked(*d, handle, base, &why) != Outcome::Good;
  *nbytes = failed ? 0 : handle.nbytes;
  return !failed;
}
BlockRef virtual_around(const void* p) {
  Domain* d = here_domain();
  if (!d) return {};
  Locked lock(*d);
  return find_block(*d, p);
}
bool virtual_export(const BlockRef& block, const BlockRef& via, Handle* out) {
  Domain* d = here_domain();
  const char* why = nullptr;
  if (!d) return false;
  Locked lock(*d);
  return block.arena && export_locked(*d, block, via, out, &why, now_ms()) == Outcome::Good;
}
void virtual_drop(void* base) try {
  Domain* d = here_domain();
  if (!d) return;
  Locked lock(*d);
  if (drop_locked(*d, base)) return;
  BlockRef found = find_block(*d, base);
  REQUIRE(found.arena);
} catch (...) {  // a death, under the destructor of a Spill or of a block: thrown again by traffic()
}
#undef acknowledge
void virtual_acknowledge(const Handle& handle) {
  if (Domain* d = here_domain()) acknowledge(*d, handle);
}
#define acknowledge virtual_acknowledge
void* virtual_allocate(size_t nbytes) {
  void* base = nbytes <= 1024 && here_domain() ? allocate_here(0) : nullptr;
  if (base) memset(base, 0, nbytes);
  return base;
}
void virtual_free(void* base) { free_here(base); }
Self virtual_self() {
  Domain* d = here_domain();
  return d ? Self{d->row, d->inc} : Self{-1, 0};
}
PyObject* virtual_block(void* base, size_t nbytes, Origin) {
  BlockObject* block = new BlockObject{};
  block->head.ob_refcnt = 1;
  block->head.ob_type = &block_object;
  block->base = base;
  block->nbytes = nbytes;
  return &block->head;
}
void* virtual_base(PyObject* block) { return reinterpret_cast<BlockObject*>(block)->base; }
size_t virtual_nbytes(PyObject* block) { return reinterpret_cast<BlockObject*>(block)->nbytes; }

// ---- traffic
struct Traffic {
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  Channel channel;
};
struct Gil {
  explicit Gil(Traffic* t) : t_(t) {
    pthread_mutex_lock(&t->lock);
    if (somebody_died()) {
      pthread_mutex_unlock(&t->lock);
      die_if(true);
    }
  }
  ~Gil() { pthread_mutex_unlock(&t_->lock); }
  Traffic* t_;
};
static Root* root = nullptr;
static Handle root_handle;
static std::atomic<uint64_t> numbers{1}, received{0};
constexpr int kWords = 32;
static_assert(sizeof(Segment) <= 1024 && sizeof(Root) <= 1024, "blocks of the larger class");

Traffic* new_traffic() {
  Traffic* t = new Traffic;
  if (!root) return t;
  Handle handle = root_handle;
  void* base;
  size_t nbytes;
  REQUIRE(virtual_hold(handle, &base, &nbytes) && t->channel.attach(base, sizeof(Root)));
  return t;
}
void drop_traffic(Traffic* t) { delete t; }  // with no process around: changes nothing

void open_channel(Traffic* t) {
  Root* block = static_cast<Root*>(virtual_allocate(sizeof(Root)));
  REQUIRE(block && t->channel.create(block, 0, false));
  REQUIRE(virtual_export(virtual_around(block), {}, &root_handle));  // the founder keeps it; the entry expires
  root = block;
}

static void put(Traffic* t, std::mt19937& dice) {
  uint64_t number = numbers.fetch_add(1, std::memory_order_relaxed), text[80];
  uint32_t n = dice() % 3;
  size_t words = dice() % 8 ? 1 + dice() % 4 : 60;
  for (size_t i = 0; i < words; i++) text[i] = number;
  void *blocks[2] = {}, *spill = nullptr;
  for (uint32_t k = 0; k < n; k++) {
    blocks[k] = allocate_here(200);
    if (!blocks[k]) n = k;
    for (int i = 0; blocks[k] && i < kWords; i++) static_cast<uint64_t*>(blocks[k])[i] = number;
  }
  {
    Gil gil(t);
    BlockRef found[2] = {};
    for (uint32_t k = 0; k < n; k++) found[k] = virtual_around(blocks[k]);
    t->channel.put(reinterpret_cast<char*>(text), 8 * words, found, n, &spill);
    Channel::discard(&spill);
  }
  for (uint32_t k = 0; k < n; k++) free_here(blocks[k]);
}

static bool get(Traffic* t) {
  ReceivedMessage arrival;
  Channel::Try result;
  Gil gil(t);
  result = t->channel.get(&arrival);
  if (result != Channel::Try::Ok) {
    REQUIRE(result == Channel::Try::NotNow || failed || somebody_died());
    return false;
  }
  uint64_t number;
  memcpy(&number, arrival.bytes, sizeof number);
  for (size_t i = 0; i < arrival.nbytes; i += 8) REQUIRE(!memcmp(arrival.bytes + i, &number, 8));
  for (PyObject* block : arrival.blocks_held)
    for (int i = 0; i < kWords; i++) REQUIRE(static_cast<uint64_t*>(virtual_base(block))[i] == number);
  received.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void traffic(Traffic* t, std::mt19937& dice) {
  if (dice() % 2) put(t, dice);
  else get(t);
  die_if(somebody_died());
}

size_t close_channel(Traffic* t) {
  while (get(t)) continue;
  t->channel.close();
  virtual_acknowledge(root_handle);
  virtual_free(root);
  return received.load();
}

}  // namespace shmtensor
