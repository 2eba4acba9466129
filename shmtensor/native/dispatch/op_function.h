// OpFunction: a row of the op table as one callable object, as numpy.ufunc is.
//
//   add(x, y)   x.add(y)   x + y   2 + x   x.add_(y)   table.arrays.add(a, b)
//
// It holds the row's columns and interprets them. The fast path goes down this list and never leaves C++. Any other
// call takes the general path: a Python function in `OpHooks` converts the arguments, and calls again.
//
//   op_function.cc      the type: its columns; positional and keyword arguments -> slots, in the row's order; slots ->
//                       arrays and nodes
//   op_result.cc        the kernel; its arrays -> Tensors, with a node (autograd_node.cc) if history is recorded
//   op_inplace.cc       in-place forms, and `out=`
//   promote_operands.cc two dtypes -> their common dtype
//   general_call.cc     rare keywords, other devices, the general path
//
// Note [Hot functions]: the functions that every call of a small op runs, from here to the heap, are marked
// __attribute__((hot)): the linker puts them side by side. Without it their places change with every function that is
// added elsewhere, and a call takes up to 1.35 times as long.
#pragma once

#include "dispatch/function_base.h"
#include "dispatch/modes.h"

#include "kernels/arguments.h"
#include "kernels/shape/memory_format.h"
#include "half/half.h"

#include <vector>

namespace shmtensor {

// Enums whose values autograd/dispatch/plan.py names, as Note [Names from Python] says: X(value, name).
#define FORMS(X)           \
  X(kFunction, "function") \
  X(kMethod, "method") X(kOperator, "operator") X(kReflected, "reflected") X(kInplace, "inplace") X(kArray, "array")
#define KINDS(X) X(kPlain, "plain") X(kIndex, "index") X(kDtype, "dtype")  // of attributes
#define PROMOTIONS(X) X(kNone, "none") X(kCommon, "common") X(kFloat, "float")
// An argument of a kernel, or a saved value of a node: (what, index, condition).
// clang-format off: it never settles on this one
#define WHATS(X)                                                                                                      \
  X(kInput, "input") X(kAttribute, "attribute") X(kConstant, "constant") X(kShape, "shape") X(kDtype, "dtype")        \
  X(kOutput, "output") X(kZeros, "zeros") X(kGradient, "gradient") X(kOps, "ops") X(kGradBuffer, "grad_buffer")       \
  X(kSaved, "saved") X(kNeeded, "needed")
// clang-format on

#define VALUE(value, name) value,
#define NAME(value, name) name,
enum class Form : int8_t { FORMS(VALUE) };
enum class AttributeKind : int8_t { KINDS(VALUE) };
enum class Promotion : int8_t { PROMOTIONS(VALUE) };
enum class What : int8_t { WHATS(VALUE) };
constexpr const char* kFormNames[] = {FORMS(NAME)};
constexpr const char* kKindNames[] = {KINDS(NAME)};
constexpr const char* kPromotionNames[] = {PROMOTIONS(NAME)};
constexpr const char* kWhatNames[] = {WHATS(NAME)};
#undef VALUE
#undef NAME

struct Item {
  What what;
  int16_t index;
  uint32_t mask;  // kInput: saved only if one of these inputs has a node; 0: always
};

// How a kernel is called with arrays that are not all contiguous, or that have 16-bit floats.
struct KernelPolicy {
  bool widens = false, formatted = false;
  Widening widening;
  Format format;
};

constexpr int kMaxArguments = 32;     // arguments of an op
constexpr int kMaxRare = 4;  // rare keywords of an op

struct Argument {
  PyObject* name;      // interned
  PyObject* spelling;  // NumPy's name for it, interned; or null
  PyObject* value;     // the default; null: required
  bool listed, optional, promoted, differentiable, number;
  AttributeKind kind;  // kPlain: the kernel gets the attribute as it is
};

// Properties of an op: X(name, which autograd/dispatch/plan.py gives, too).
#define OP_FLAGS(X)                                                                            \
  X(listed)      /* any number of outputs */                                                   \
  X(view)        /* outputs may be views of the first input */                                 \
  X(writes)      /* the kernel takes the result array as one more argument */                  \
  X(writes_out)  /* `out=` may be that argument */                                             \
  X(takes_out)   /* there is an `out=` */                                                      \
  X(keeps)       /* the kernel returns extra values after the outputs, for pullbacks */        \
  X(wraps)       /* a Python integer that does not fit into the tensor's dtype wraps around */ \
  X(pair)        /* its arguments are two inputs that are cast to their common dtype */
struct Op {
  Function function;
  PyTypeObject* array_class;  // the class of its arrays
  bool on_device;             // that is device_array_type or meta_array_type
  Form form;
  Promotion promotion;
  int n_inputs, n_arguments, n_positional, sizes_at, n_outputs, n_differentiable, n_rare;
#define FIELD(name) bool name;
  OP_FLAGS(FIELD)
#undef FIELD
  int n_kernel, n_saved;
  PyObject* kernel;     // null: not planned yet
  PyObject* constants;  // tuple: the kernel's constant arguments
  PyObject* rule;
  PyObject* result;  // the named tuple of several outputs, or None
  KernelPolicy policy;
  Argument arguments[kMaxArguments];
  Item kernel_items[kMaxArguments], saved_items[kMaxArguments];
  PyObject* rare;  // composite for rare keywords: (ops, inputs..., attributes=, rare=); or null
  PyObject* ops;   // the table of ops for `rare`
  PyObject* twin;  // the form of the device's rule, once it was called; or null
  PyObject* rare_names[kMaxRare];
  PyObject* rare_defaults[kMaxRare];

  bool has_many_outputs() const { return listed || n_outputs > 1; }

  template <class Visit>
  void each_reference(Visit visit) {
    function.each_reference(visit);
    for (PyObject** p : {&kernel, &constants, &rare, &ops, &result, &rule, &twin, &policy.widening.first}) visit(*p);
    for (int i = 0; i < n_arguments; ++i)
      for (PyObject** p : {&arguments[i].name, &arguments[i].spelling, &arguments[i].value}) visit(*p);
    for (int i = 0; i < n_rare; ++i)
      for (PyObject** p : {&rare_names[i], &rare_defaults[i]}) visit(*p);
  }
};

// Python functions, set once by autograd/dispatch/op_function.py.
#define OP_HOOKS(X)                                                                                          \
  X(plan)                    /* plan(op): fills in the columns, at the first call */                         \
  X(signature)               /* signature(op) -> inspect.Signature */                                        \
  X(bind)                    /* bind(op, args, keywords): arguments that the parser here does not handle */  \
  X(call_general)            /* call_general(op, values, out): operands of other classes, dtypes, devices */ \
  X(explain)                 /* explain(op, values, error): raises the error that the caller sees */         \
  X(copy_to_out)             /* copy_to_out(out, name, result) */                                            \
  X(as_index)                /* as_index(index, input) */                                                    \
  X(as_dtype)                /* as_dtype(dtype) */                                                           \
  X(view_node)               /* view_node(view) -> its current node */                                       \
  X(recording)               /* the ContextVar */                                                            \
  X(check_recorded_write)    /* check_recorded_write(tensor) */                                              \
  X(check_unrecorded_write)  /* check_unrecorded_write(tensor): for a write without history */               \
  X(rewrite_history)         /* rewrite_history(tensor, rule, edges, *saved) */                              \
  X(common_dtype)            /* common_dtype(promotion, x, y) */                                             \
  X(cast)                    /* cast(tensor, dtype), recorded */                                             \
  X(twin)                    /* twin(op) -> the same form of the device's rule */
#define HOOK(name) PyObject* name;
struct OpHooks {
  OP_HOOKS(HOOK)
};
#undef HOOK
extern OpHooks hooks;

enum class Outcome : int8_t { kError, kGeneral, kFast };

// References that are released together.
class Owned {
 public:
  Owned() = default;
  Owned(const Owned&) = delete;
  ~Owned() {
    for (int i = 0; i < n_; ++i) drop(inline_[i]);
    for (PyObject* p : overflow_) drop(p);
  }
  PyObject* keep(PyObject* p) {  // steals; null passes
    if (!p) return nullptr;
    if (n_ < kInline) inline_[n_++] = p;
    else overflow_.push_back(p);
    return p;
  }

 private:
  static constexpr int kInline = 8;
  int n_ = 0;
  PyObject* inline_[kInline];
  std::vector<PyObject*> overflow_;
};

// Borrowed references in one array, for a vectorcall.
class Values {
 public:
  void push(PyObject* p) {
    if (n_ < kInline && overflow_.empty()) {
      inline_[n_++] = p;
      return;
    }
    if (overflow_.empty()) overflow_.assign(inline_, inline_ + n_);
    overflow_.push_back(p);
    ++n_;
  }
  PyObject** data() { return overflow_.empty() ? inline_ : overflow_.data(); }
  Py_ssize_t size() const { return n_; }

 private:
  static constexpr Py_ssize_t kInline = 24;
  Py_ssize_t n_ = 0;
  PyObject* inline_[kInline];
  std::vector<PyObject*> overflow_;
};

// One call.
struct OpCall {
  explicit OpCall(Op* o) : op(o) {}
  OpCall(const OpCall&) = delete;
  ~OpCall() {
    for (int i = 0; i < n_nodes; ++i) drop_if_set(nodes[i]);
  }

  Op* op;
  PyObject* slots[kMaxArguments];  // borrowed: the arguments in the row's order
  PyObject* out = nullptr;   // borrowed: `out=`
  PyObject* rare[kMaxRare];  // borrowed: the rare keywords' values
  bool has_rare = false;
  PyObject* arrays[kMaxArguments];  // borrowed: of the inputs; a list for a listed input
  PyObject* nodes[kMaxArguments];   // owned: of the inputs; null: not differentiable
  int n_nodes = 0;
  PyObject* list_nodes = nullptr;  // in `owned`: the tuple of a listed input's nodes
  uint32_t tracked = 0;            // a bit for each input that has a node
  Owned owned;

  bool array_form() const { return op->form == Form::kArray; }
};

// Reads a tuple of (what, index, mask) from autograd/dispatch/plan.py. False with an exception set.
bool read_items(const char* where, PyObject* list, Item* items, int* n);
bool plan(Op* op);  // at the first call; false with an exception set

int add_op(PyObject* module);
int add_gradients(PyObject* module);
int add_cublas(PyObject* module);
int add_composite(PyObject* module);

// op_function.cc
PyObject* call_op_bound(Op* op, PyObject* values, PyObject* out);  // all arguments, in the row's order
bool recording();  // does this context record history?
PyObject* node_of(TensorBase* tensor);  // new reference; updates the history of a view

// promote_operands.cc
Outcome promote_pair(OpCall* call);  // the slots of a row with the flag `pair`
PyObject* forget_promotions(PyObject*, PyObject*);  // the common dtypes: the default dtype changes

// general_call.cc
PyObject* call_rare(OpCall* call);
PyObject* call_general(OpCall* call);
PyObject* explain_failure(OpCall* call);  // after an exception of the kernel, which it replaces

// op_result.cc
// May overwrite args[-1]. `policy`: null for a kernel that takes any arrays.
PyObject* run_kernel(PyObject* kernel, PyObject* const* args, Py_ssize_t n, const KernelPolicy* policy = nullptr);
PyObject* call(PyObject*, PyObject* const* args, Py_ssize_t n);     // call(kernel, *arguments) -> arrays
PyObject* compute(PyObject*, PyObject* const* args, Py_ssize_t n);  // call(...), as Tensors without history
PyObject* call_kernel(OpCall* call, PyObject* last = nullptr);  // `last`: one more argument
PyObject* finish(OpCall* call, PyObject* result);               // steals result
PyObject* finish_arrays(OpCall* call, PyObject* result);        // steals result
PyObject* edges_of(OpCall* call);
// Appends the values that the node saves. `old`: a copy of the first input, or null. False with an exception set.
bool push_saved(OpCall* call, PyObject* result, PyObject* old, Values* values);

// op_inplace.cc
// Note [Watched writes]: in a loader's worker `write_watcher` is called with each tensor that was written and whose
// memory another process made. Elsewhere it is null.
PyObject* watch_writes(PyObject*, PyObject* function);
PyObject* count_write(TensorBase* tensor);  // counts one in-place write to its memory; the tensor, a new reference
PyObject* write(PyObject*, PyObject* const* args, Py_ssize_t n);  // write(tensor, kernel, *arguments, including out)
// `kernel_failed`: the exception is the kernel's. `needs_general`: the call takes the general path.
PyObject* run_inplace(OpCall* call, bool* kernel_failed, bool* needs_general);
PyObject* run_out(OpCall* call, bool* kernel_failed, bool* needs_general);

// Is it a tensor without a __torch_function__ that applies?
inline bool is_plain(PyObject* x) {
  PyTypeObject* type = Py_TYPE(x);
  if (__builtin_expect(type == tensor_type, 1) || is_plain_class(type)) return true;
  return overrides_off && PyObject_TypeCheck(x, base_type);
}

inline PyArray_Descr* dtype_of(PyObject* array) { return PyArray_DESCR(as_array(array)); }
inline bool is_inexact(PyArray_Descr* dtype) { return dtype->kind == 'f' || dtype->kind == 'c'; }

}  // namespace shmtensor
