"""A recurrent network that learns the sum of a sequence, whose state is detached each time."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(1, 16, num_layers=2, batch_first=True)
        self.fc = nn.Linear(16, 1)

    def forward(self, x, lengths, hidden):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        output, hidden = self.rnn(packed, hidden)
        output, _ = pad_packed_sequence(output, batch_first=True)
        return self.fc(output[torch.arange(len(x)), lengths - 1]).squeeze(1), hidden


def detached(state):
    return state.detach() if isinstance(state, torch.Tensor) else tuple(map(detached, state))


torch.manual_seed(0)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
hidden = torch.zeros(2, 8, 16), model.fc.weight.new_zeros(2, 8, 16)
losses = []
for _ in range(60):
    lengths = torch.randint(2, 6, (8,))
    sequences = [torch.rand(int(n), 1) for n in lengths]
    x, y = pad_sequence(sequences, batch_first=True), torch.stack([s.sum() for s in sequences])
    output, hidden = model(x, lengths, detached(hidden))
    loss = nn.MSELoss()(output, y)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    losses.append(loss.item())
assert sum(losses[-10:]) < 0.5 * sum(losses[:10]), losses
print("learned")
