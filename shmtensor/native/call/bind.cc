// The Python face of call/.
#include "array.h"
#include "call.h"
#include "compute/memory_format.h"
#include "graph.h"
#include "op.h"
#include "views.h"

namespace shmtensor {

namespace {

template <class F>
PyCFunction fast(F function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)(void)>(function));
}

PyMethodDef functions[] = {
    {"call", fast(call), METH_FASTCALL, "call(kernel, *arguments): runs it with the heap open; arrays."},
    {"compute", fast(compute), METH_FASTCALL, "compute(kernel, *arguments): call, as Tensors."},
    {"write", fast(write), METH_FASTCALL,
     "write(tensor, kernel, *arguments): runs a kernel that writes the tensor's memory, and counts the write."},
    {"wrap", wrap, METH_O, "wrap(array): a Tensor over it, without history."},
    {"view_of", fast(view_of), METH_FASTCALL, "view_of(array, parent, row, attributes): a view without history."},
    {"mark", fast(mark), METH_FASTCALL, "mark(tensor, parent, row, attributes): a view, if its memory lies there."},
    {"rewrite", fast(static_cast<PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t)>(rewrite)), METH_FASTCALL,
     "rewrite(tensor, row, edges, *saved): gives a tensor written in place its new node."},
    {"wrote", wrote, METH_O, "wrote(tensor): counts an in-place write."},
    {"plain_class", plain_class, METH_NOARGS, "plain_class(): the class of all Tensors made here."},
    {"set_observer", set_observer, METH_O, "set_observer(f or None): f(node) is called with each new node."},
    {"set_unpacker", set_unpacker, METH_O, "set_unpacker(f): what f makes of a packed node's saved values is read."},
    {"set_inferring", set_inferring, METH_O, "set_inferring(ContextVar): the mode; gives inference tensors' version."},
    {"inference", inference, METH_O, "inference(step): counts open inference_mode blocks."},
    {"set_tensor_class", set_tensor_class, METH_O, "Registers the class of all Tensors made here."},
    {"item", fast(item), METH_FASTCALL, "item(x, index): x[index], never a NumPy scalar."},
    {"expand", fast(expand), METH_FASTCALL, "expand(x, shape): a stretched, read-only view."},
    {"fit", fast(fit), METH_FASTCALL, "fit(gradient, edge): the gradient if it belongs there, else None."},
    {"taken", fast(taken), METH_FASTCALL,
     "taken(sums, leaf, tensor, home): takes the leaf's gradient out of the sums; what becomes .grad."},
    {"laid_as_grad", fast(laid_as_grad), METH_FASTCALL,
     "laid_as_grad(gradient, tensor): the gradient or a copy, as .grad of a weakly referred tensor lies."},
    {"is_only_owner", is_only_owner, METH_O,
     "is_only_owner(tensor): does nothing else in this process refer to its memory?"},
    {"suggests_channels_last", static_cast<PyCFunction>(suggests_channels_last), METH_O,
     "suggests_channels_last(x): does PyTorch take an image or a volume for channels last?"},
    {"laid", fast(laid), METH_FASTCALL, "laid(array, like): the array or a copy, as a tensor made like the other lies."},
    {"basic", fast(basic), METH_FASTCALL,
     "basic(index, ...): the index, if it is a tuple of numbers, slices, None and `...` alone, or None."},
    {"relaid", fast(relaid), METH_FASTCALL,
     "relaid(x, shape, strides, offset): a view of x's memory, in bytes; the caller knows that it lies within."},
    {"assign", fast(assign), METH_FASTCALL, "assign(x, index, values): x[index] = values."},
    {"viewed", fast(viewed), METH_FASTCALL, "viewed(x, shape): a view in another shape, or None."},
    {"flatten", fast(flatten), METH_FASTCALL, "flatten(x, start_dim, end_dim): a view, or None."},
    {"squeeze", fast(squeeze), METH_FASTCALL, "squeeze(x, dim): a view, or None."},
    {"unsqueeze", fast(unsqueeze), METH_FASTCALL, "unsqueeze(x, dim): a view, or None."},
    {"diagonal", fast(diagonal), METH_FASTCALL, "diagonal(x, offset, dim1, dim2): a view, or None."},
    {"unbind", fast(unbind), METH_FASTCALL, "unbind(x, dim): a list of views, or None."},
    {"blank", fast(blank), METH_FASTCALL,
     "blank(sizes, dtype, kind): a Tensor of whatever (0), zeros (1) or ones (2), or None."},
    {"counted", fast(counted), METH_FASTCALL,
     "counted(start, end, step, dtype): a Tensor of start + i * step, or None."},
    {"set_modes", fast(set_modes), METH_FASTCALL, "set_modes(bits, on): modes that are on in some thread."},
    {"leave_out_modes", leave_out_modes, METH_O,
     "leave_out_modes(bits): the modes that this thread ignores from now on; gives the former ones."},
    {"set_mode_functions", fast(set_mode_functions), METH_FASTCALL,
     "set_mode_functions(autocast, observed): each (called, args, keywords), for calls that a mode concerns."},
    {"turn_overrides_off", turn_overrides_off, METH_O,
     "turn_overrides_off(step): this thread takes tensors of subclasses for plain ones while the sum is above 0."},
    {"add_plain_class", add_plain_class, METH_O, "add_plain_class(type): its tensors are taken for plain ones."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_call(PyObject* module) {
  if (add_op(module) < 0 || add_gradients(module) < 0 || add_composite(module) < 0) return -1;
  if (add_graph_types(module) < 0 || add_either(module) < 0 || add_size(module) < 0) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace shmtensor
