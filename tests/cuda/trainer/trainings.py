"""Programs that train on GPUs: `python -m tests.cuda.trainer.trainings CASE`.

A program of its own, because the children of `spawn` import it anew. Each case gives what training
on the CPU gives. It prints "ok" at the end.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.cuda.standin.install import install

install()

import numpy as np  # noqa: E402
import pytest  # noqa: E402

import shmtensor as st  # noqa: E402
from shmtensor import distributed as dist  # noqa: E402
from shmtensor import multiprocessing as mp  # noqa: E402
from shmtensor import nn, optim  # noqa: E402
from shmtensor.dataloaders import DataLoader, TensorDataset  # noqa: E402
from shmtensor.errors import PeerLostError  # noqa: E402
from shmtensor.trainer import Trainer  # noqa: E402
from tests.cuda.standin.program import last_device, need_devices, run_case  # noqa: E402


def model() -> Any:
    st.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))


def data() -> list[Any]:
    """Batches of 16, 16 and 5 samples, on the CPU."""
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((37, 6)).astype(np.float32), rng.integers(0, 3, 37)
    return [(st.tensor(x[i : i + 16]), st.tensor(y[i : i + 16])) for i in range(0, 37, 16)]


def make(nprocs: int, device: str | None, where: str = "cpu", **options: Any) -> Trainer:
    net = model().to(where)
    sgd = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    scheduler = optim.lr_scheduler.StepLR(sgd, 1, 0.5)
    return Trainer(
        net, sgd, nn.CrossEntropyLoss(), nprocs=nprocs, device=device, scheduler=scheduler,
        progress=False, timeout=200, **options,
    )  # fmt: skip


def values(trainer: Trainer) -> Any:
    parts = [*trainer.model.parameters(), *trainer.model.buffers()]
    return np.concatenate([x.detach().cpu().numpy().astype(np.float64).ravel() for x in parts])


def check(trainer: Trainer, reference: Trainer, rtol: float = 1e-3, atol: float = 1e-5) -> None:
    np.testing.assert_allclose(values(trainer), values(reference), rtol=rtol, atol=atol)
    assert trainer.step == reference.step
    for ours, theirs in zip(trainer.history.epochs, reference.history.epochs, strict=True):
        assert abs(ours.loss - theirs.loss) < 1e-2
        assert ours.samples == theirs.samples


def fit(trainer: Trainer, epochs: int = 2, **options: Any) -> Trainer:
    trainer.fit(data(), epochs, eval=data(), **options)
    return trainer


def case_one_rank() -> None:
    reference = fit(make(1, None))
    for device, where in (("cuda", "cpu"), (None, last_device()), (last_device(), "cuda:0")):
        trainer = fit(make(1, device, where))
        check(trainer, reference)
        found = {p.device for p in trainer.model.parameters()}
        assert found == {st.device("cuda:0" if device == "cuda" else last_device())}
        assert abs(trainer.evaluate(data())["loss"] - reference.evaluate(data())["loss"]) < 1e-2
    on_gpu = [(x.to("cuda:0"), y.to("cuda:0")) for x, y in data()]
    trainer = make(1, "cuda")
    trainer.fit(on_gpu, 2, eval=on_gpu)
    check(trainer, reference)


def case_losses_are_read_later() -> None:
    """Where the update does not depend on the loss: no step waits for the GPU."""
    weights = st.tensor([1.0, 2.0, 0.5])
    losses = [
        (nn.CrossEntropyLoss(), nn.CrossEntropyLoss()),
        (nn.CrossEntropyLoss(weight=weights), nn.CrossEntropyLoss(weight=weights.to("cuda:0"))),
        (nn.CrossEntropyLoss(reduction="sum"), nn.CrossEntropyLoss(reduction="sum")),
    ]
    batches = [(x, y.masked_fill(y == 2, -100)) for x, y in data()]
    batches[1] = batches[1][0], st.full((16,), -100)  # nothing counts
    on_gpu = [(x.to("cuda:0"), y.to("cuda:0")) for x, y in batches]
    for on_cpu, loss in losses:
        trainers = [make(1, None), make(1, "cuda", on_nonfinite="warn")]
        for trainer, each, samples in zip(trainers, (on_cpu, loss), (batches, on_gpu), strict=True):
            trainer.steps = trainer.steps._replace(loss=each)
            trainer.optimizer.param_groups[0]["lr"] = 1e-3
            with pytest.MonkeyPatch.context() as patch:
                if trainer is trainers[1]:
                    patch.delattr(st.Tensor, "item")
                trainer.fit(samples * 50, 2, eval=samples)  # some are read in mid-epoch
        reference, trainer = trainers
        check(trainer, reference)
        for ours, theirs in zip(trainer.history.epochs, reference.history.epochs, strict=True):
            np.testing.assert_allclose(ours.eval_loss, theirs.eval_loss, rtol=1e-3)
            assert abs(ours.accuracy - theirs.accuracy) < 0.03
            assert abs(ours.eval_accuracy - theirs.eval_accuracy) < 0.1

    on_gpu[0][0][0, 0] = float("nan")
    trainer = make(1, "cuda", on_nonfinite="warn")
    with pytest.warns(RuntimeWarning, match="the loss was nan at step 4 on rank 0") as caught:
        trainer.fit([*on_gpu[1:], on_gpu[1], on_gpu[0]], 1)
    assert len(caught) == 1
    with pytest.raises(FloatingPointError, match="the loss is nan at step 4 on rank 0"):
        make(1, "cuda").fit([*on_gpu[1:], on_gpu[1], on_gpu[0]], 1)


def case_waits_of_several_ranks() -> None:
    """A step waits for the GPU after backward, for its figures, and again in the reduction of each
    bucket, with nccl as without it: to read the figures later would leave one wait of two. An
    evaluation reads all figures at its end.
    """
    from shmtensor.distributed.backends.nccl.member import NcclMember
    from shmtensor.distributed.group import process_group
    from shmtensor.trainer import cuda_ranks, history, rank_step

    without_statistics()
    events: list[str] = []

    def note(patch: Any, owner: Any, name: str, event: str) -> None:
        original = getattr(owner, name)

        def noted(*args: Any, **keywords: Any) -> Any:
            events.append(event)
            return original(*args, **keywords)

        patch.setattr(owner, name, noted)

    reference = fit(make(1, None))
    for device in [last_device()] + ["cuda"] * (st.cuda.device_count() > 1):
        trainer = make(2, device, on_nonfinite="warn")
        with pytest.MonkeyPatch.context() as patch:
            note(patch, st.Tensor, "backward", "backward")
            note(patch, st.Tensor, "item", "a number is read")
            note(patch, rank_step, "numbers_of", "figures are read")
            note(patch, history, "stack", "numbers are read")
            note(patch, cuda_ranks.Replicated, "update", "reduction")
            # Of the transfers for a reduction only that to the host waits.
            wait = (NcclMember, "wait") if device == "cuda" else (process_group, "host_copy")
            note(patch, *wait, "wait")
            fit(trainer)
        step = ["backward", "figures are read", "numbers are read", "reduction", "wait"]
        evaluation = ["numbers are read"] * 3  # losses, weights, samples classified correctly
        assert events == (step * 3 + evaluation) * 2
        events.clear()
        check(trainer, reference)
        for ours, theirs in zip(trainer.history.epochs, reference.history.epochs, strict=True):
            np.testing.assert_allclose(ours.eval_loss, theirs.eval_loss, rtol=1e-3)
            assert ours.eval_accuracy == theirs.eval_accuracy

        batches = data()
        batches[1][0][-1, 0] = float("nan")  # of rank 1's samples
        with pytest.warns(RuntimeWarning, match="the loss is nan at step 2 on rank 1") as caught:
            make(2, device, on_nonfinite="warn").fit(batches[:2], 1)
        assert len(caught) == 1


def case_mixed_precision() -> None:
    without_statistics()
    reference = fit(make(1, None))
    for nprocs in (1, 2):
        scaler = st.amp.GradScaler("cuda", init_scale=256.0, growth_interval=2)
        trainer = fit(make(nprocs, "cuda", autocast=st.float16, scaler=scaler))
        check(trainer, reference, 5e-2, 5e-3)
        assert scaler.get_scale() == 256.0 * 2**3  # 6 good steps
        assert trainer.state_dict()["scaler"]["scale"] == scaler.get_scale()


def plain() -> Any:
    """A model without statistics of a batch, whose parts would differ from the whole's."""
    st.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))


def without_statistics() -> None:
    globals()["model"] = plain


def check_ranks(device: str | None, where: str, nprocs: int = 2, **options: Any) -> None:
    without_statistics()
    reference = fit(make(1, None))
    trainer = fit(make(nprocs, device, where, **options))
    check(trainer, reference)
    assert {p.device for p in trainer.model.parameters()} == {st.device(where)}


def case_ranks_with_a_gpu_each() -> None:
    need_devices(2)
    check_ranks("cuda", "cpu")


def case_ranks_share_a_gpu() -> None:
    check_ranks(None, "cuda:0", start_method="forkserver")


def case_more_ranks_than_gpus() -> None:
    check_ranks("cuda", "cpu", 3)


def case_statistics() -> None:
    """Rank 0's statistics of a batch count, and all ranks evaluate with them."""
    shared, ours = fit(make(2, "cpu")), fit(make(2, "cuda"))
    check(ours, shared)
    for a, b in zip(ours.history.epochs, shared.history.epochs, strict=True):
        assert abs(a.eval_loss - b.eval_loss) < 1e-2


def case_sync_batchnorm() -> None:
    reference = fit(make(1, None))
    for device in (last_device(), "cuda"):  # ranks that share a GPU, and ranks with one each
        check(fit(make(2, device, sync_batchnorm=True)), reference)


def case_checkpoints() -> None:
    without_statistics()
    reference = fit(make(1, None), 4)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.ckpt"
        runs = [(1, last_device()), (2, "cuda"), (1, "cpu"), (2, "cpu")]
        for n, (nprocs, device) in enumerate(runs):
            trainer = make(nprocs, device)
            if n:
                trainer.load(path)
            fit(trainer, n + 1, checkpoint=path)
        check(trainer, reference)


def case_a_loader_with_workers() -> None:
    """Each rank loads its samples, by workers that it forks."""
    without_statistics()
    columns = [np.concatenate([part.numpy() for part in column]) for column in zip(*data())]
    reference = fit(make(1, None))
    with DataLoader(TensorDataset(*columns), 16, num_workers=2) as loader:
        trainer = make(2, "cuda")
        trainer.fit(loader, 2, eval=loader)
    check(trainer, reference)


class Fails(nn.Module):
    """Ends its process in the second epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.calls = plain(), 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        if self.calls > 4 and mp.current_process().name == "rank 1":
            os._exit(3)
        return self.layer(x)


def check_death(device: str) -> None:
    without_statistics()

    def make_one(net: Any, nprocs: int, where: str | None) -> Trainer:
        sgd = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        loss = nn.CrossEntropyLoss()
        return Trainer(net, sgd, loss, nprocs=nprocs, device=where, progress=False)

    reference = make_one(plain(), 1, None)
    reference.fit(data(), 1)
    reference.fit(data()[:1], 2)
    net = Fails()
    trainer = make_one(net, 2, device)
    with pytest.raises(PeerLostError, match="weights are whole at step 4"):
        trainer.fit(data(), 3)
    np.testing.assert_allclose(values(trainer), values(reference), rtol=1e-3, atol=1e-5)
    assert trainer.step == 4
    net.calls = -100
    trainer.fit(data(), 3)
    assert len(trainer.history) == 3


def case_a_death() -> None:
    check_death("cuda:0")


class FailsInEvaluation(Fails):
    """Ends its process in the second batch of an evaluation."""

    def forward(self, x: Any) -> Any:
        self.calls += not self.training
        if self.calls == 2 and mp.current_process().name == "rank 1" and not Path("dead").exists():
            Path("dead").touch()
            os._exit(3)
        return self.layer(x)


def case_a_death_in_an_evaluation() -> None:
    """It is made again, and counts each sample once, though figures are read at its end."""
    without_statistics()
    reference = fit(make(1, None))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setitem(globals(), "model", FailsInEvaluation)
        trainer = make(2, "cuda:0")
        with pytest.warns(RuntimeWarning, match="started again, 0 restarts left"):
            fit(trainer, max_restarts=1)
    check(trainer, reference)
    for ours, theirs in zip(trainer.history.epochs, reference.history.epochs, strict=True):
        np.testing.assert_allclose(ours.eval_loss, theirs.eval_loss, rtol=1e-3)
        assert ours.eval_accuracy == theirs.eval_accuracy


def case_a_death_with_nccl() -> None:
    need_devices(2)
    check_death("cuda")


def case_errors() -> None:
    with pytest.raises(ValueError, match="use 'spawn' or 'forkserver'"):
        fit(make(2, "cuda", start_method="fork"))
    net = model()
    net[0].to("cuda:0")
    trainer = Trainer(net, optim.SGD(net.parameters(), 0.1), nn.CrossEntropyLoss(), progress=False)
    with pytest.raises(ValueError, match="parameters are on cpu, cuda:0"):
        fit(trainer)


def in_group(rank: int, name: str, backend: str, folder: str) -> None:
    st.cuda.set_device(rank % st.cuda.device_count())
    dist.init_process_group(backend, name, timeout=200, world_size=2, rank=rank)
    without_statistics()
    trainer = make(1, "cuda" if backend == "nccl" else "cuda:0")
    if rank:
        for p in trainer.model.parameters():
            p.data.zero_()  # rank 0's count
    trainer.fit(data() if not rank else [], 2, eval=data() if not rank else [])
    np.save(f"{folder}/{rank}.npy", values(trainer))
    dist.destroy_process_group()


def case_in_a_group() -> None:
    without_statistics()
    reference = fit(make(1, None))
    for backend in ("shm", "nccl") if st.cuda.device_count() > 1 else ("shm",):
        with tempfile.TemporaryDirectory() as folder:
            name = f"trainings/{backend}/{os.getpid()}"
            mp.spawn(in_group, (name, backend, folder), nprocs=2)
            for rank in range(2):
                got = np.load(f"{folder}/{rank}.npy")
                np.testing.assert_allclose(got, values(reference), rtol=1e-3, atol=1e-5)


if __name__ == "__main__":
    run_case(globals()[f"case_{sys.argv[1]}"])
