"""What must work where only the wheel is installed: run by tests/wheels.sh, by itself."""

import subprocess
import sys

import shmtensor as st
from shmtensor import multiprocessing as mp
from shmtensor import nn, optim
from shmtensor.dataloaders import DataLoader, TensorDataset


def double(queue, done):
    queue.get().mul_(2)
    done.put(None)


# Its thread waits in the extension when the interpreter ends, and is unwound there.
WAITS_AT_THE_END = """
import queue, threading
from shmtensor import multiprocessing as mp

def wait(messages):
    while True:
        try:
            messages.get(timeout=0.001)
        except queue.Empty:
            pass

messages = mp.Queue()
threading.Thread(target=wait, args=(messages,), daemon=True).start()
"""


def main():
    for name in dir(st):  # modules that are imported when they are asked for, too
        getattr(st, name)
    for method in ("fork", "spawn"):
        context = mp.get_context(method)
        queue, done = context.SimpleQueue(), context.SimpleQueue()
        process = context.Process(target=double, args=(queue, done))
        process.start()
        x = st.arange(4.0)
        queue.put(x)
        done.get()
        process.join()
        assert x.tolist() == [0.0, 2.0, 4.0, 6.0], x
    st.manual_seed(0)
    x = st.randn(256, 8)
    y = (x.sum(1) > 0).long()
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    adam = optim.Adam(model.parameters(), lr=1e-2)
    with DataLoader(TensorDataset(x, y), batch_size=32, num_workers=2) as loader:
        for _ in range(20):
            for a, b in loader:
                adam.zero_grad()
                nn.functional.cross_entropy(model(a), b).backward()
                adam.step()
    accuracy = (model(x).argmax(1) == y).float().mean().item()
    assert accuracy > 0.9, accuracy
    for _ in range(5):
        subprocess.run([sys.executable, "-c", WAITS_AT_THE_END], check=True)
    version = subprocess.run(["shmtensor", "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.split() == ["shmtensor", st.__version__]
    print("python", sys.version.split()[0], "shmtensor", st.__version__, "works")


if __name__ == "__main__":
    main()
