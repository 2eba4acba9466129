// The Python functions of dispatch/.
#include "dispatch/numpy_array.h"
#include "kernels/dtype_object.h"
#include "kernels/shape/memory_format.h"
#include "dispatch/autograd_node.h"
#include "dispatch/device_array.h"
#include "dispatch/op_function.h"
#include "dispatch/views.h"

namespace shmtensor {

namespace {

PyMethodDef functions[] = {
    method("call", call, "call(kernel, *arguments): runs it with the heap open; arrays."),
    method("compute", compute, "compute(kernel, *arguments): call, as Tensors."),
    method("write", write,
           "write(tensor, kernel, *arguments): runs a kernel that writes the tensor's memory, and counts the write."),
    {"wrap", wrap, METH_O, "wrap(array): a Tensor over it, without history."},
    method("view_of", view_of, "view_of(array, parent, row, attributes): a view without history."),
    method("mark", mark, "mark(tensor, parent, row, attributes): makes it a view of parent, if it shares parent's memory."),
    method("rewrite", rewrite, "rewrite(tensor, row, edges, *saved): sets the new node of a tensor written in place."),
    {"wrote", wrote, METH_O, "wrote(tensor): counts an in-place write."},
    {"watch_writes", watch_writes, METH_O,
     "watch_writes(f or None): f(tensor) is called after each in-place write to memory that another process made."},
    {"plain_class", plain_class, METH_NOARGS, "plain_class(): the class of all Tensors made here."},
    {"set_observer", set_observer, METH_O, "set_observer(f or None): f(node) is called with each new node."},
    {"set_unpacker", set_unpacker, METH_O, "set_unpacker(f): f(saved) unpacks the saved values that a hook packed."},
    {"set_inferring", set_inferring, METH_O,
     "set_inferring(ContextVar): sets the mode's variable; returns the version of inference tensors."},
    {"inference", inference, METH_O, "inference(step): counts open inference_mode blocks."},
    {"is_array", static_cast<PyObject* (*)(PyObject*, PyObject*)>(is_array), METH_O,
     "is_array(x): is it an array of NumPy's or of the second device?"},
    method("set_device_arrays", set_device_arrays,
           "set_device_arrays(type, assign, copy): the class of the arrays of a second device."),
    {"set_meta_arrays", set_meta_arrays, METH_O, "set_meta_arrays(type): the class of arrays without data."},
    {"set_tensor_class", set_tensor_class, METH_O, "Registers the class of all Tensors made here."},
    method("item", item, "item(x, index): x[index], never a NumPy scalar."),
    method("expand", expand, "expand(x, shape): a read-only view."),
    method("sum_to_size", sum_to_size,
           "sum_to_size(gradient, edge): the gradient if it has the edge's dtype and shape, else None."),
    {"is_only_owner", is_only_owner, METH_O,
     "is_only_owner(tensor): does nothing else in this process refer to its memory?"},
    method(
        "move_tensors", move_tensors,
        "move_tensors(tensors, tensor, memory, readonly): moves the tensor's memory, with all of `tensors` that share it,\n"
        "into `memory`; False: something else refers to it, and nothing was moved. Copies: one."),
    {"suggests_channels_last", static_cast<PyCFunction>(suggests_channels_last), METH_O,
     "suggests_channels_last(x): does PyTorch treat an image or a volume as channels last?"},
    method("in_layout_of", in_layout_of,
           "in_layout_of(array, like): the array, or a copy with the strides of empty_like(like)."),
    method("basic", basic,
           "basic(index, ...): the index, if it is a tuple of numbers, slices, None and `...` alone, or None."),
    method("as_strided", as_strided,
           "as_strided(x, shape, strides, offset): a view of x's memory, in bytes; the caller checks the bounds."),
    method("assign", assign, "assign(x, index, values): x[index] = values."),
    method("reshape_view", reshape_view, "reshape_view(x, shape): a view in another shape, or None."),
    method("reshape", reshape, "reshape(x, shape): a view in another shape, else a copy; None in rare or wrong cases."),
    method("flatten", flatten, "flatten(x, start_dim, end_dim): a view, else a copy; None in rare or wrong cases."),
    method("squeeze", squeeze, "squeeze(x, dim): a view, or None."),
    method("unsqueeze", unsqueeze, "unsqueeze(x, dim): a view, or None."),
    method("diagonal", diagonal, "diagonal(x, offset, dim1, dim2): a view, or None."),
    method("unbind", unbind, "unbind(x, dim): a list of views, or None."),
    method("empty", empty, "empty(sizes, dtype, kind): an uninitialized Tensor (0), zeros (1) or ones (2), or None."),
    method("arange", arange, "arange(start, end, step, dtype): a Tensor of start + i * step, or None."),
    {"let_python_choose_device", let_python_choose_device, METH_O,
     "let_python_choose_device(on): empty and arange return None, because a default device is set."},
    method("set_modes", set_modes, "set_modes(bits, on): modes that are on in some thread."),
    {"leave_out_modes", leave_out_modes, METH_O,
     "leave_out_modes(bits): the modes that this thread ignores from now on; returns the former ones."},
    method("set_mode_functions", set_mode_functions,
           "set_mode_functions(autocast, observed): each (called, args, keywords), for calls that a mode concerns."),
    {"turn_overrides_off", turn_overrides_off, METH_O,
     "turn_overrides_off(step): this thread treats tensors of subclasses as plain while the sum is above 0."},
    {"add_plain_class", add_plain_class, METH_O, "add_plain_class(type): its tensors are treated as plain."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_call(PyObject* module) {
  if (add_function(module) < 0 || add_op(module) < 0 || add_gradients(module) < 0 || add_cublas(module) < 0) return -1;
  if (add_dtype_objects(module) < 0 || add_composite(module) < 0 || add_graph_types(module) < 0) return -1;
  if (add_kernel_or_fallback(module) < 0 || add_size(module) < 0 || add_device_pointwise(module) < 0) return -1;
  if (PyModule_AddIntConstant(module, "AUTOCAST", kAutocast) < 0 ||
      PyModule_AddIntConstant(module, "OBSERVED", kObserved) < 0 ||
      PyModule_AddIntConstant(module, "PROFILED", kProfiled) < 0 ||
      PyModule_AddIntConstant(module, "AUTOCAST_CUDA", kAutocastCuda) < 0)
    return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace shmtensor
