// OpFunction: a row of the op table as one callable object, as numpy.ufunc is.
//
//   add(x, y)   x.add(y)   x + y   2 + x   x.add_(y)   table.arrays.add(a, b)
//
// It holds the row's columns and interprets them. A usual call goes down this list and never leaves C++; what is odd
// about a call goes to one of the Python functions in `OpHooks`, which makes it usual and calls again.
//
//   op_function.cc            positional and keyword arguments -> slots, in the row's order; then the steps below
//   op_operands.cc   slots -> arrays and nodes; two dtypes -> their common one
//   op_result.cc     the kernel's arrays -> Tensors, with a node where history is recorded
//   op_inplace.cc    in-place forms, and `out=`
//   op_type.cc       the type: its columns, and what it shows of itself
#pragma once

#include "dispatch/function.h"
#include "dispatch/modes.h"

#include "kernels/arguments.h"
#include "kernels/shape/memory_format.h"
#include "half/half.h"

#include <vector>

namespace shmtensor {

enum class Form : int8_t { kFunction, kMethod, kOperator, kReflected, kInplace, kArray };
enum class Promotion : int8_t { kNone, kCommon, kFloat };

// What a kernel gets, or a node keeps: (what, which one, condition). autograd/dispatch/plan.py writes these lists.
enum class What : int8_t { kInput, kAttribute, kConstant, kShape, kDtype, kOutput, kZeros, kGradient, kOps, kInto, kSaved };

struct Item {
  What what;
  int16_t index;
  uint32_t mask;  // kInput: kept only if one of these inputs has a node; 0: always
};

// What a row says of its kernel's calls whose arrays are not all in rows, or of 16 bits.
struct KernelPolicy {
  bool widens = false, formatted = false;
  Widening widening;
  Format format;
};

constexpr int kMost = 32;     // arguments of an op
constexpr int kMostRare = 4;  // rare keywords of an op

struct Argument {
  PyObject* name;      // interned
  PyObject* spelling;  // NumPy's name for it, interned; or null
  PyObject* value;     // the default; null: it must be given
  bool listed, optional, promoted, differentiable, number;
  char kind;  // of an attribute: 'i' index, 's' sizes, 'd' dtype, 0 any
};

struct Op {
  Function function;
  Form form;
  Promotion promotion;
  int n_inputs, n_arguments, n_positional, sizes_at, n_outputs, n_differentiable, n_rare;
  bool listed;       // several outputs, of any number
  bool view;         // outputs may be views of the first input
  bool writes;       // the kernel takes the result array as one more argument
  bool writes_out;   // `out=` may be that argument
  bool takes_out;    // there is an `out=`
  bool keeps;        // the kernel returns more than the outputs, for pullbacks
  bool wraps;        // a Python integer that does not fit into the tensor's dtype wraps around
  bool pair;         // two inputs that are brought to their common dtype, and nothing else
  Argument arguments[kMost];
  PyObject* rare_names[kMostRare];
  PyObject* rare_defaults[kMostRare];
  int n_kernel, n_saved;
  Item kernel_items[kMost], saved_items[kMost];
  PyObject* kernel;     // null: not planned yet
  KernelPolicy policy;
  PyObject* constants;  // tuple: the kernel's constant arguments
  PyObject* rare;       // composite for rare keywords: (ops, inputs..., attributes=, rare=); or null
  PyObject* ops;        // the table that it gets
  PyObject* result;     // the named tuple of several outputs, or None
  PyObject* rule;

  bool many() const { return listed || n_outputs > 1; }

  template <class Visit>
  void each_reference(Visit visit) {
    function.each_reference(visit);
    for (PyObject** p : {&kernel, &constants, &rare, &ops, &result, &rule, &policy.widening.first}) visit(*p);
    for (int i = 0; i < n_arguments; ++i)
      for (PyObject** p : {&arguments[i].name, &arguments[i].spelling, &arguments[i].value}) visit(*p);
    for (int i = 0; i < n_rare; ++i)
      for (PyObject** p : {&rare_names[i], &rare_defaults[i]}) visit(*p);
  }
};

// Python's side, set once by autograd/dispatch/op_function.py.
struct OpHooks {
  PyObject* plan;        // plan(op): fills in the columns, at the first call
  PyObject* signature;   // signature(op) -> inspect.Signature
  PyObject* bind;        // bind(op, args, keywords): a call that the parser does not know
  PyObject* odd;         // odd(op, values, out): operands of other classes, dtypes, devices
  PyObject* failed;      // failed(op, values, error): raises what the caller should see
  PyObject* put;         // put(out, name, result): a copy
  PyObject* as_index;    // as_index(index, input)
  PyObject* as_dtype;    // as_dtype(dtype)
  PyObject* history;     // history(view) -> its node
  PyObject* recording;   // the ContextVar
  PyObject* may_write;   // may_write(tensor): a recorded write
  PyObject* may_forget;  // may_forget(tensor): a write without history
  PyObject* written;     // written(tensor, rule, edges, *saved)
  PyObject* common;      // common(promotion, x, y) -> dtype
  PyObject* cast;        // cast(tensor, dtype), recorded
};
extern OpHooks hooks;

enum class Outcome : int8_t { kError, kOdd, kUsual };

// References that are given back together.
class Owned {
 public:
  Owned() = default;
  Owned(const Owned&) = delete;
  ~Owned() {
    for (int i = 0; i < n_; ++i) Py_DECREF(few_[i]);
    for (PyObject* p : more_) Py_DECREF(p);
  }
  PyObject* keep(PyObject* p) {  // steals; null passes
    if (!p) return nullptr;
    if (n_ < kFew)
      few_[n_++] = p;
    else
      more_.push_back(p);
    return p;
  }

 private:
  static constexpr int kFew = 8;
  int n_ = 0;
  PyObject* few_[kFew];
  std::vector<PyObject*> more_;
};

// Borrowed references side by side, as a vectorcall wants them.
class Values {
 public:
  void push(PyObject* p) {
    if (n_ < kFew && more_.empty()) {
      few_[n_++] = p;
      return;
    }
    if (more_.empty()) more_.assign(few_, few_ + n_);
    more_.push_back(p);
    ++n_;
  }
  PyObject** data() { return more_.empty() ? few_ : more_.data(); }
  Py_ssize_t size() const { return n_; }

 private:
  static constexpr Py_ssize_t kFew = 24;
  Py_ssize_t n_ = 0;
  PyObject* few_[kFew];
  std::vector<PyObject*> more_;
};

// One call.
struct OpCall {
  explicit OpCall(Op* o) : op(o) {}
  OpCall(const OpCall&) = delete;
  ~OpCall() {
    for (int i = 0; i < n_nodes; ++i) Py_XDECREF(nodes[i]);
  }

  Op* op;
  PyObject* slots[kMost];  // borrowed: the arguments in the row's order
  PyObject* out = nullptr;   // borrowed: `out=`
  PyObject* rare[kMostRare];  // borrowed: the rare keywords' values
  bool has_rare = false;
  PyObject* arrays[kMost];  // borrowed: of the inputs; a list for a listed one
  PyObject* nodes[kMost];   // owned: of the inputs; null: not differentiable
  int n_nodes = 0;
  PyObject* list_nodes = nullptr;  // in `owned`: a tuple, the listed input's
  uint32_t tracked = 0;            // a bit for each input that has a node
  Owned owned;

  bool array_form() const { return op->form == Form::kArray; }
};

// A tuple of (what, index, mask), as autograd/dispatch/plan.py writes it. False with an exception set.
bool read_items(const char* where, PyObject* list, Item* items, int* n);
bool plan(Op* op);  // at the first call; false with an exception set

int add_op(PyObject* module);
int add_gradients(PyObject* module);
int add_composite(PyObject* module);

// op_function.cc
// args[-1] may be overwritten. `policy`: null for a kernel that takes the arrays as they are.
PyObject* run_kernel(PyObject* kernel, PyObject* const* args, Py_ssize_t n, const KernelPolicy* policy = nullptr);

PyObject* call(PyObject*, PyObject* const* args, Py_ssize_t n);     // call(kernel, *arguments) -> arrays
PyObject* compute(PyObject*, PyObject* const* args, Py_ssize_t n);  // the same, as Tensors without history
PyObject* write(PyObject*, PyObject* const* args, Py_ssize_t n);  // write(tensor, kernel, *arguments with out)
PyObject* call_op(Op* op, PyObject* const* args, Py_ssize_t n, PyObject* names);
PyObject* call_op_bound(Op* op, PyObject* values, PyObject* out);  // all arguments, in the row's order

// op_operands.cc
Outcome read_operands(OpCall* call);
Outcome read_arrays(OpCall* call);  // the array form's
bool forget_promotions();
bool recording();  // in this context, now
PyObject* node_of(TensorBase* tensor);  // new reference; a view's history is brought up to date

// op_result.cc
PyObject* call_kernel(OpCall* call, PyObject* last = nullptr);  // `last`: one more argument
PyObject* finish(OpCall* call, PyObject* result);               // steals result
PyObject* finish_arrays(OpCall* call, PyObject* result);        // steals result
PyObject* edges_of(OpCall* call);
// Appends what the node keeps. `old`: what stands for the first input, or null. False with an exception set.
bool push_saved(OpCall* call, PyObject* result, PyObject* old, Values* values);

// op_inplace.cc. `kernel_failed`: the exception is the kernel's.
PyObject* run_inplace(OpCall* call, bool* kernel_failed, bool* odd);
PyObject* run_out(OpCall* call, bool* kernel_failed, bool* odd);

// A tensor whose class has no behaviour of its own, or whose class does not matter now
inline bool is_plain(PyObject* x) {
  PyTypeObject* type = Py_TYPE(x);
  if (__builtin_expect(type == tensor_type, 1) || is_plain_class(type)) return true;
  return overrides_off && PyObject_TypeCheck(x, base_type);
}

}  // namespace shmtensor
