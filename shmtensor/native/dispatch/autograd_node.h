// The objects that an op on tiny tensors makes: Version, Edge, Node, Port, TensorBase.
//
// They are C structs because dispatch is hot: one C call makes tensor, node and saved values together. Their meaning
// (who walks them, when) is Python's: autograd/ and tensor/ subclass them and read their members.
//
//   TensorBase.node --> Node  (what computed it)       Node.edges: tuple of Edge or None, one per tensor input
//                   --> Port  (output i of a Node)     Node.saved: what the pullbacks named
//                   --> AccumulateGrad  (a Python Edge: where .grad lives)
//
// An Edge knows the dtype and shape that a gradient arriving there must have.
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
  PyArray_Descr* dtype;  // null: unknown (a node with several outputs)
  int ndim;
  npy_intp* sizes;  // points at `at_most`, or at malloc'ed memory
  npy_intp few[5];
};

struct Check {  // a saved array must not have been written since
  Version* version;
  Py_ssize_t count;
};

struct Node {
  Edge edge;
  PyObject* row;    // what it computes: has `name` and the functions `arrays` and `tensors`
  PyObject* edges;  // tuple
  PyObject* saved;  // tuple, or null when released
  PyObject* hooks;  // None, or what autograd/ put there
  bool holds_arrays;
  bool packed;  // a saved-tensor hook has replaced saved values: they are unpacked when they are read
  int checked;
  Check* checks;  // points at `two`, or at malloc'ed memory
  Check two[2];
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
  PyObject* base;     // None, or (parent, version count seen, row or None, attributes) of a view
  PyObject* leaf;     // None, or the AccumulateGrad that owns .grad
  PyObject* weak;
  PyObject* own;  // null, or the dict of the attributes that people hang on it

  template <class Visit>
  void each_reference(Visit visit) {
    for (PyObject** p : {&array, &node, &version, &base, &leaf, &own}) visit(*p);
  }
};

extern PyTypeObject* version_type;
extern PyTypeObject* edge_type;
extern PyTypeObject* node_type;
extern PyTypeObject* port_type;
extern PyTypeObject* base_type;
// Note [Observed nodes]: while any thread saves with hooks, or looks for anomalies, `observer` is called with each new
// node; otherwise it is null, and that test is all that saved-tensor hooks cost a program that has none.
extern PyObject* observer;
extern PyObject* unpacker;  // saved tuple of a packed node -> the tuple that pullbacks read

// Note [Inference tensors]: a tensor made in inference mode has this one cell in place of a version of its own. It is
// never counted; saving such a tensor, or writing it outside the mode, is refused. The mode is a ContextVar, which is
// read only while some thread is in the mode.
extern Version* frozen;
bool inferring();  // in this context, now
bool may_write_frozen(TensorBase* tensor);  // false with an exception set

extern PyTypeObject* tensor_type;  // the Python class Tensor, once tensor/ has registered it

extern PyType_Spec base_spec;

int add_graph_types(PyObject* module);

PyObject* shape_of(PyArrayObject* array);  // as a Size
bool is_sizes(PyObject* x);                // a tuple or a Size: what a shape is given as
int add_size(PyObject* module);

inline bool is_tensor(PyObject* x) {
  return Py_TYPE(x) == tensor_type || PyObject_TypeCheck(x, base_type);
}

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
  edge->sizes = edge->few;
}

// Fills in what a gradient at this edge must look like. False: out of memory, exception set.
bool describe(Edge* edge, PyArrayObject* array);

// Only floating and complex arrays have gradients.
bool is_differentiable(PyObject* array);

// The version cell of a tensor, made at the first need. Borrowed; null with an exception set.
Version* version_of(TensorBase* tensor);

// New references; steal nothing.
PyObject* make_tensor(PyObject* array);
PyObject* make_port(PyObject* node, Py_ssize_t index, PyObject* array);
PyObject* make_node(PyObject* row, PyObject* edges, PyObject* const* saved, Py_ssize_t n,
                    PyObject* const* outputs, PyObject* const* tensors, Py_ssize_t n_outputs,
                    Py_ssize_t ahead = 0);

// A Tensor over the array whose node is Node(row, edges, saved); without a node if it can have no gradient. A Tensor among
// the saved is kept as its array, with a check of its version; so is the array itself.
PyObject* record(PyObject* array, PyObject* row, PyObject* edges, PyObject* const* saved, Py_ssize_t n);
// The same for a tuple of arrays with one node: a tuple of Tensors; those that can have a gradient get a Port.
PyObject* record_many(PyObject* arrays, PyObject* row, PyObject* edges, PyObject* const* saved, Py_ssize_t n);
// `record`, and a view of parent if its memory lies there.
PyObject* record_view(PyObject* array, PyObject* row, PyObject* edges, TensorBase* parent, PyObject* attributes,
                      PyObject* const* saved, Py_ssize_t n);
// The tensor was written in place; its node becomes Node(row, edges, saved). The count of writes is raised: a saved operand
// that shares the memory is stale from birth, the saved result is not.
PyObject* rewrite(TensorBase* tensor, PyObject* row, PyObject* edges, PyObject* const* saved, Py_ssize_t n);
// A Tensor without history; a view of parent if its memory lies there.
PyObject* make_view(PyObject* array, TensorBase* parent, PyObject* row, PyObject* attributes);
// Makes a tensor a view of parent if its memory lies there. row: None for one that may not be written in grad mode.
bool mark_view(PyObject* tensor, TensorBase* parent, PyObject* row, PyObject* attributes);

bool observed(PyObject* node);  // shows a complete node to the observer; false with an exception set

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
