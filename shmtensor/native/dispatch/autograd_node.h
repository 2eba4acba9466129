// The objects that an op on tiny tensors makes: Version, Edge, Node, Port, TensorBase.
//
// They are C structs because dispatch is hot: one C call makes tensor, node and saved values together. autograd/ and
// tensor/ subclass them in Python and read their members.
//
//   TensorBase.node --> Node  (what computed it)       Node.edges: tuple of Edge or None, one per tensor input
//                   --> Port  (output i of a Node)     Node.saved: the values that the pullbacks need
//                   --> AccumulateGrad  (a Python Edge: owns .grad)
//
// An Edge holds the dtype and shape that its gradient must have.
#pragma once
#include "python.h"

#include <initializer_list>

namespace shmtensor {

struct Version {
  PyObject_HEAD
  Py_ssize_t count;  // in-place writes to the memory that all holders of this cell share
};

struct Edge {
  PyObject_HEAD
  PyArray_Descr* dtype;  // null for a node with several outputs
  int ndim;
  npy_intp* sizes;  // points at `inline_sizes`, or at malloc'ed memory
  npy_intp inline_sizes[5];
};

struct Check {  // a saved array whose version has moved is stale
  Version* version;
  Py_ssize_t count;
};

struct Node {
  Edge edge;
  PyObject* row;    // what it computes: has `name` and the functions `arrays` and `tensors`
  PyObject* edges;  // tuple
  PyObject* saved;  // tuple, or null when released
  PyObject* hooks;  // None, or a Hooks of autograd/engine/accumulate_grad.py
  bool holds_arrays;
  bool has_packed;  // a saved-tensor hook replaced saved values; reading unpacks them
  int n_checks;
  Check* checks;  // points at `inline_checks`, or at malloc'ed memory
  Check inline_checks[2];
  PyObject* weak;

  template <class Visit>
  void each_reference(Visit visit) {
    for (PyObject** p : {&row, &edges, &saved, &hooks}) visit(*p);
  }
};

struct Port {
  Edge edge;
  PyObject* node;
  Py_ssize_t index;

  template <class Visit>
  void each_reference(Visit visit) {
    visit(node);
  }
};

struct TensorBase {
  PyObject_HEAD
  PyObject* array;
  PyObject* node;     // None, Node, Port or AccumulateGrad; not None means "requires grad"
  PyObject* version;  // None or Version
  PyObject* base;     // None, or (parent, version count, row or None, attributes) of a view
  PyObject* accumulate_grad;  // None, or the AccumulateGrad that owns .grad
  PyObject* weak;
  PyObject* dict;  // null, or the dict of the attributes that users set

  template <class Visit>
  void each_reference(Visit visit) {
    for (PyObject** p : {&array, &node, &version, &base, &accumulate_grad, &dict}) visit(*p);
  }
};

extern PyTypeObject* version_type;
extern PyTypeObject* edge_type;
extern PyTypeObject* node_type;
extern PyTypeObject* port_type;
extern PyTypeObject* base_type;
// Note [Observed nodes]: while any thread uses saved-tensor hooks or anomaly mode, `observer` is called with each new
// node. Otherwise it is null, and a program without hooks pays for that test alone.
extern PyObject* observer;
extern PyObject* unpacker;  // saved tuple of a has_packed node -> the tuple that pullbacks read

// Note [Inference tensors]: all tensors made in inference mode share this one version cell, which never counts. Saving
// such a tensor, or writing it outside the mode, is an error. The mode is a ContextVar, which is read only while some
// thread is in the mode.
extern Version* frozen;
bool inferring();  // is this context in inference mode?
bool check_inference_write(TensorBase* tensor);  // false with an exception set

extern PyTypeObject* tensor_type;  // the Python class Tensor, once tensor/ has registered it

extern PyType_Spec base_spec;

int add_graph_types(PyObject* module);

PyObject* shape_of(PyArrayObject* array);  // as a Size
PyObject* as_size(PyObject* shape);        // a tuple of ints as a Size
bool is_sizes(PyObject* x);                // a tuple or a Size
int add_size(PyObject* module);

inline bool is_tensor(PyObject* x) { return Py_TYPE(x) == tensor_type || PyObject_TypeCheck(x, base_type); }

// The end of a dealloc of a heap type.
template <class T>
inline void untrack_and_free(T* self) {
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(reinterpret_cast<PyObject*>(self));
  Py_DECREF(type);
}

inline void edge_start(Edge* edge) {
  edge->dtype = nullptr;
  edge->ndim = 0;
  edge->sizes = edge->inline_sizes;
}

// Sets the dtype and shape of the edge's gradient from an array, of any device. False with an exception set.
bool describe(Edge* edge, PyObject* array);

// Only floating and complex arrays have gradients. Of a device's array that cannot tell its dtype: false.
bool is_differentiable(PyObject* array);

// The version cell of a tensor, created on first use. Borrowed; null with an exception set.
Version* version_of(TensorBase* tensor);

// New references; steal nothing.
PyObject* make_tensor(PyObject* array);
PyObject* make_port(PyObject* node, Py_ssize_t index, PyObject* array);
PyObject* make_node(PyObject* row, PyObject* edges, PyObject* const* saved, Py_ssize_t n, PyObject* const* outputs,
                    PyObject* const* tensors, Py_ssize_t n_outputs, Py_ssize_t ahead = 0);

// A Tensor over the array with the node Node(row, edges, saved); without a node if its dtype has no gradient. A Tensor
// in `saved` is saved as its array with a check of its version, and so is the array itself.
PyObject* record(PyObject* array, PyObject* row, PyObject* edges, PyObject* const* saved, Py_ssize_t n);
// The same for a tuple of arrays with one node: a tuple of Tensors. Those of a dtype with gradients get a Port.
PyObject* record_many(PyObject* arrays, PyObject* row, PyObject* edges, PyObject* const* saved, Py_ssize_t n);
// `record`, and a view of parent if it shares parent's memory.
PyObject* record_view(PyObject* array, PyObject* row, PyObject* edges, TensorBase* parent, PyObject* attributes,
                      PyObject* const* saved, Py_ssize_t n);
// Gives a tensor that was written in place the node Node(row, edges, saved), and counts the write. A saved operand that
// shares the memory is then stale, the saved result is not.
PyObject* rewrite(TensorBase* tensor, PyObject* row, PyObject* edges, PyObject* const* saved, Py_ssize_t n);
// A Tensor without history; a view of parent if it shares parent's memory.
PyObject* make_view(PyObject* array, TensorBase* parent, PyObject* row, PyObject* attributes);
// Makes a tensor a view of parent if it shares parent's memory. row: None for a view that may not be written in grad
// mode.
bool mark_view(PyObject* tensor, TensorBase* parent, PyObject* row, PyObject* attributes);

bool notify_observer(PyObject* node);  // false with an exception set

PyObject* set_tensor_class(PyObject*, PyObject* type);
PyObject* plain_class(PyObject*, PyObject*);
PyObject* set_observer(PyObject*, PyObject* function);
PyObject* set_unpacker(PyObject*, PyObject* function);
PyObject* set_inferring(PyObject*, PyObject* variable);
PyObject* inference(PyObject*, PyObject* step);
PyObject* wrap(PyObject*, PyObject* array);
PyObject* view_of(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* mark(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* rewrite(PyObject*, PyObject* const* args, Py_ssize_t n);
PyObject* wrote(PyObject*, PyObject* tensor);

}  // namespace shmtensor
