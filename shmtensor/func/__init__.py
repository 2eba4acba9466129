"""Functions of functions, `torch.func` by name: batches, gradients, modules without state."""

from .call import functional_call, stack_module_state
from .jacobians import hessian, jacfwd, jacrev, linearize
from .transforms import grad, grad_and_value, jvp, vjp
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
