"""Functions of functions, `torch.func` by name: batches, gradients, modules without state."""

from .functional_call import functional_call, stack_module_state
from .grad_vjp_jvp import grad, grad_and_value, jvp, vjp
from .jacrev_jacfwd import hessian, jacfwd, jacrev, linearize
from .vmap import vmap

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "stack_module_state",
    "vjp",
    "vmap",
]
