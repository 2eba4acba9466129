"""st.cuda's devices: which are there, which is in use, and what they are."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

import shmtensor as st
from shmtensor import accelerator, cupy_runtime
from shmtensor.device import as_device
from tests.cuda.standin.program import run


def test_a_device_is_there(cuda: ModuleType) -> None:
    count = cuda.device_count()
    assert cuda.is_available()
    assert count == accelerator.device_count() >= 1
    assert cuda.is_initialized()
    cuda.init()
    assert accelerator.is_available()
    assert accelerator.current_accelerator() == st.device("cuda")
    assert accelerator.current_device_index() == cuda.current_device() == 0


def test_properties(cuda: ModuleType) -> None:
    p = cuda.get_device_properties(0)
    assert p.name == cuda.get_device_name() == cuda.get_device_name("cuda:0")
    assert (p.major, p.minor) == cuda.get_device_capability(st.device("cuda"))
    assert p.total_memory == cuda.mem_get_info(0)[1] > 0
    assert p.multi_processor_count > 0
    assert p.warp_size == 32
    assert len(p.uuid) == 36
    assert repr(p).startswith(f"_CudaDeviceProperties(name={p.name!r}, major={p.major}")
    assert f"sm_{p.major}{p.minor}" in cuda.get_arch_list()
    assert f"code=sm_{p.major}{p.minor}" in cuda.get_gencode_flags()
    assert cuda.is_bf16_supported()
    assert cuda.is_tf32_supported() == (p.major >= 8)
    assert st.float32 in accelerator.get_device_capability()["supported_dtypes"]


def test_names_and_numbers_are_devices(two: ModuleType) -> None:
    assert as_device("cuda") == as_device(0) == as_device("cuda:0") == st.device("cuda", 0)
    with two.device(1):
        assert as_device("cuda") == st.device("cuda:1")
    message = f"cuda:7 is not there: this process has {two.device_count()} CUDA devices"
    for use in (
        lambda: as_device("cuda:7"),
        lambda: st.zeros(1, device=7),
        lambda: two.set_device(7),
        lambda: two.get_device_properties("cuda:7"),
    ):
        for error in (RuntimeError, AssertionError):
            with pytest.raises(error, match=message):
                use()


def test_the_device_in_use(two: ModuleType, cp: Any) -> None:
    two.set_device(1)
    assert two.current_device() == cp.cuda.runtime.getDevice() == 1
    assert st.zeros(1, device="cuda").device == st.device("cuda:1")
    with two.device(0):
        assert two.current_device() == 0
        with two.device_of(st.zeros(1, device="cuda:1")), two.device(-1), two.device(None):
            assert two.current_device() == 1
    assert two.current_device() == 1
    two.set_device("cuda")
    two.set_device(-1)
    assert two.current_device() == 1
    with accelerator.device_index(0):
        assert accelerator.current_device_index() == 0
    accelerator.set_device_index(0)
    assert two.current_device() == 0
    with pytest.raises(ValueError, match="expected a cuda device: cpu"):
        two.set_device("cpu")


def test_peers(two: ModuleType, cp: Any) -> None:
    expected = bool(cp.cuda.runtime.deviceCanAccessPeer(0, 1))
    assert two.can_device_access_peer(0, 1) is expected
    assert not two.can_device_access_peer(0, 0)


def test_synchronize_waits_for_all_streams(cuda: ModuleType, late_work: Any) -> None:
    stream = cuda.Stream()
    st.ones(1000, device="cuda") * 2  # compiled
    late_work(stream.stream, 0.5)
    with stream:
        x = st.ones(1000, device="cuda") * 2
    assert not stream.query()
    cuda.synchronize()
    assert stream.query()
    st.device("cuda").synchronize()
    accelerator.synchronize()
    assert x.sum().item() == 2000


FORKED = """
import warnings
import shmtensor as st
# Python 3.12: the driver has threads.
warnings.filterwarnings("ignore", ".*is multi-threaded, use of fork", DeprecationWarning)
print(st.cuda.is_available())  # asks the driver, as PyTorch's does
def use(call):
    try:
        return str(call())
    except RuntimeError as error:
        return str(error)
pid = os.fork()
if not pid:
    for call in (
        lambda: st.zeros(1, device="cuda"),
        lambda: st.cuda.current_device(),
        lambda: st.cuda.Stream(),
        lambda: st.ones(1).cuda(),
    ):
        message = use(call)
        assert "Cannot re-initialize CUDA in forked subprocess" in message, message
        assert "'spawn' or 'forkserver'" in message
    assert (st.ones(2) + 1).tolist() == [2, 2]
    assert st.cuda.is_available()
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
print(st.zeros(2, device="cuda").tolist())
"""


def test_a_forked_child_of_a_process_that_used_cuda_cannot(cuda: ModuleType) -> None:
    code, out, err = run(FORKED)
    assert (code, err) == (0, "")
    assert out.split("\n")[:2] == ["True", "[0.0, 0.0]"]


BEFORE = """
import shmtensor as st
pid = os.fork()
if not pid:
    assert st.zeros(2, device="cuda").tolist() == [0, 0]
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""


def test_a_child_that_was_forked_before_can(cuda: ModuleType) -> None:
    assert run(BEFORE)[0] == 0


def test_hooks_run_at_the_first_use_or_at_once(cuda: ModuleType, cp: Any) -> None:
    seen: list[Any] = []
    cupy_runtime.on_initialize(seen.append)
    cupy_runtime.hooks.remove(seen.append)
    assert seen == [cp]
