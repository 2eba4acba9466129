"""Wrong uses, each of which a checker has to find."""

from __future__ import annotations

import shmtensor as st
from shmtensor import linalg, nn, optim
from shmtensor import onse  # wrong
from shmtensor.nn import Liner  # wrong
from shmtensor.nn import functional as F
from shmtensor.utils.data import DataLoader, Dataset, TensorDataset

x = st.ones(3)
number: int = x  # wrong
st.onse(3)  # wrong
linalg.inverse(x)  # wrong
F.rleu(x)  # wrong
x.sumn()  # wrong
st.ones("3")  # wrong
st.ones(2.5)  # wrong
st.ones(3, dtpye=st.float32)  # wrong
x.reshape("a")  # wrong
x["a"]  # wrong
x + "a"  # wrong
None * x  # wrong
st.matmul(x, 2)  # wrong
st.cat(3)  # wrong
st.stack([1, 2])  # wrong
st.equal(x, x).sum()  # wrong
x.max(0).argmax()  # wrong
x.shape.sum()  # wrong
x.grad.zero_()  # wrong
x.split(2).shape  # wrong
x.sum(keepdim="yes")  # wrong
st.exp(2.0)  # wrong
a, b = linalg.svd(x)  # wrong


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, "4")  # wrong

    def forward(self, x: st.Tensor) -> st.Tensor:
        return self.layer(x).item()  # wrong


model = Model()
model("a")  # wrong
model()  # wrong
model(x, x)  # wrong
model(x).keys()  # wrong
nn.ReLU()(3)  # wrong
F.relu("a")  # wrong
optim.SGD(model.parameters(), learning_rate=0.1)  # wrong
optim.Adma(model.parameters())  # wrong


class Data(Dataset[tuple[st.Tensor, int]]):
    def __getitem__(self, index: int) -> st.Tensor:  # wrong
        return x


def collate(samples: list[int]) -> int:
    return len(samples)


DataLoader(3)  # wrong
DataLoader(Data(), batchsize=3)  # wrong
DataLoader(Data(), num_workers="2")  # wrong
for batch in DataLoader(TensorDataset(x, x), batch_size=2):
    batch.keys()  # wrong
for n in DataLoader(Data(), collate_fn=collate):
    n.shape  # wrong
st.save(model.state_dict())  # wrong
st.load(3)  # wrong
st.device(cpu=1)  # wrong
