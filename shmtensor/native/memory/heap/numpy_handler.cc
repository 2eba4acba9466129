// NumPy's handler of array data (NEP 49) and the gate.
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "memory/heap/heap.h"
#include "memory/ledger/ledger.h"

namespace shmtensor {

PyObject* handler_capsule = nullptr;
bool gate_attention = true;
bool uninstalled = false;
static bool warning_due = false;
static PyDataMem_Handler handler;
static const PyDataMemAllocator* numpy_allocator = nullptr;  // the default handler's, with its cache of small blocks

// Note [Shut gate]: with the gate shut, NumPy's default handler allocates as it would without us, so a user's arrays are
// private and small ones use NumPy's cache. The address of a block tells which allocator must free it.
__attribute__((hot)) static void* data_malloc(void*, size_t n) {
  Thread& thread = thread_state;
  if (thread.gate) return heap_alloc(thread, n);
  return numpy_allocator->malloc(numpy_allocator->ctx, n);
}

static void* data_calloc(void*, size_t count, size_t size) {
  if (!thread_state.gate) return numpy_allocator->calloc(numpy_allocator->ctx, count, size);
  size_t n;
  if (__builtin_mul_overflow(count, size, &n)) return nullptr;
  return heap_alloc_zeroed(n);
}

__attribute__((hot)) static void data_free(void*, void* p, size_t n) {
  if (in_volumes(p)) heap_free(p);
  else if (p) numpy_allocator->free(numpy_allocator->ctx, p, n);
}

// A block keeps its allocator: resizing does not change whether it is shared.
static void* data_realloc(void*, void* p, size_t n) {
  if (p && in_volumes(p)) return heap_realloc(p, n);
  if (!p && thread_state.gate) return heap_alloc(n);
  return numpy_allocator->realloc(numpy_allocator->ctx, p, n);
}

std::atomic<int64_t> data_bytes{0};
__thread int64_t thread_data_bytes;

static void* count(void* p, int64_t sign) {
  if (p && in_volumes(p)) {
    const int64_t bytes = sign * int64_t(heap_size(p));
    thread_data_bytes += bytes;
    data_bytes.fetch_add(bytes, relaxed);
  }
  return p;
}
static void* counted_malloc(void* context, size_t n) { return count(data_malloc(context, n), 1); }
static void* counted_calloc(void* context, size_t n, size_t size) { return count(data_calloc(context, n, size), 1); }
static void counted_free(void* context, void* p, size_t n) { data_free(context, count(p, -1), n); }
static void* counted_realloc(void* context, void* p, size_t n) {
  const int64_t former = p && in_volumes(p) ? int64_t(heap_size(p)) : 0;
  void* result = count(data_realloc(context, p, n), 1);
  if (result) thread_data_bytes -= former, data_bytes.fetch_sub(former, relaxed);
  return result;
}

static void set_functions(bool counts) {
  PyDataMemAllocator& functions = handler.allocator;
  functions.malloc = counts ? counted_malloc : data_malloc;
  functions.calloc = counts ? counted_calloc : data_calloc;
  functions.realloc = counts ? counted_realloc : data_realloc;
  functions.free = counts ? counted_free : data_free;
}

void count_data(bool on) {
  if (on && domain_ready() && !domain.rowless) {
    HeapFigures figures;
    Quiesced quiet;
    heap_figures(&figures);
    data_bytes.store(int64_t(figures.bytes[kPrivate] + figures.bytes[kShared] + figures.bytes[kCounted]), relaxed);
  }
  set_functions(on);
}

bool make_handler() {
  if (handler_capsule) return true;
  auto* handler_of_numpy = static_cast<PyDataMem_Handler*>(PyCapsule_GetPointer(PyDataMem_DefaultHandler, "mem_handler"));
  if (!handler_of_numpy) return false;
  numpy_allocator = &handler_of_numpy->allocator;
  strcpy(handler.name, "shmtensor");
  handler.version = 1;
  handler.allocator.ctx = nullptr;
  set_functions(false);
  handler_capsule = PyCapsule_New(&handler, "mem_handler", nullptr);
  return handler_capsule != nullptr;
}

void expect_attention() { gate_attention = warning_due = true; }

// Note [Lost locks]: the thread that finds a living process without its lock (Note [Closed by mistake]) holds the ledger
// mutex and perhaps not the GIL, so the warning is issued later, with the GIL.
std::atomic<bool> lost_reported{false};
static char lost_text[320];

void report_lost(int pid, const char* role) {
  if (lost_reported.load(acquire)) return;  // one at a time
  char name[64];
  memcpy(name, role, sizeof name);
  name[63] = 0;
  snprintf(lost_text, sizeof lost_text,
           "process %d%s%s has lost its lock on the domain: a library closed a descriptor that it "
           "did not own (os.closerange?); its holds stay valid, but it cannot share any more",
           pid, name[0] ? ", " : "", name);
  lost_reported.store(true, release);
  gate_attention = true;
}

bool warn_of_lost() {
  if (!lost_reported.load(acquire)) return true;
  char text[sizeof lost_text];
  memcpy(text, lost_text, sizeof text);
  lost_reported.store(false, release);
  return PyErr_WarnEx(PyExc_RuntimeWarning, text, 1) == 0;
}

// The previous_handler handler of this context while the gate is open in bracketed mode; gates nest, the
// outermost restores.
static thread_local PyObject* previous_handler = nullptr;
constexpr int kRestores = 2;

int gate_enter_slow() {
  if (!domain_ensure()) return -1;
  if (warning_due) {
    warning_due = false;
    if (PyErr_WarnEx(PyExc_RuntimeWarning,
                     "fork: all rows of the domain are in use: this process allocates privately and "
                     "sends copies",
                     1) < 0)
      return -1;
  }
  if (!warn_of_lost()) return -1;
  gate_attention = uninstalled;
  int token = thread_state.gate;
  PyObject* current = PyDataMem_GetHandler();
  bool is_installed = current == handler_capsule;
  Py_XDECREF(current);
  if (!is_installed) {
    PyObject* old = PyDataMem_SetHandler(handler_capsule);
    if (!old) return -1;
    if (uninstalled && !previous_handler) {
      previous_handler = old;
      token |= kRestores;
    } else {
      Py_DECREF(old);
    }
  }
  thread_state.gate = 1;
  return token;
}

void gate_leave_slow(int token) {
  thread_state.gate = token & 1;
  PyObject* old = previous_handler;
  previous_handler = nullptr;
  if (!old) return;
  if (interpreter_end.is_near.load(relaxed)) stop_without_gil();  // called by destructors: Note [Interpreter end]
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  Py_XDECREF(PyDataMem_SetHandler(old));
  Py_DECREF(old);
  PyErr_Clear();
  PyErr_Restore(type, value, traceback);
}

PyObject* raise_allocation_failure(const char* where) {
  const Failure* failure = pending_failure();
  if (!failure) return nullptr;
  if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_MemoryError)) {
    char text[sizeof failure->text];
    memcpy(text, failure->text, sizeof text);
    PyErr_Clear();
    raise("OutOfSharedMemory", "%s: %s", where, text);
  }
  clear_failure();
  return nullptr;
}

}  // namespace shmtensor
