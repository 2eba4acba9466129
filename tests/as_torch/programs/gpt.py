"""A small GPT: fused attention, tied weights, compile, gradient accumulation, sampling."""

import os

import torch
import torch.nn as nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width, bias=False), nn.LayerNorm(width, bias=False)
        self.c_attn = nn.Linear(width, 3 * width, bias=False)
        self.c_proj = nn.Linear(width, width, bias=False)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.heads = heads

    def forward(self, x):
        B, T, C = x.size()
        parts = self.c_attn(self.ln_1(x)).split(C, dim=2)
        q, k, v = (p.view(B, T, self.heads, C // self.heads).transpose(1, 2) for p in parts)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, vocab=12, length=16, width=32):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(length, width)
        self.h = nn.ModuleList([Block(width, 2) for _ in range(2)])
        self.head = nn.Linear(width, vocab, bias=False)
        self.wte.weight = self.head.weight
        self.apply(lambda m: nn.init.normal_(m.weight, 0, 0.1) if hasattr(m, "weight") else None)

    def forward(self, idx, targets=None):
        pos = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device)
        x = self.wte(idx) + self.wpe(pos)
        for block in self.h:
            x = block(x)
        logits = self.head(x if targets is not None else x[:, [-1], :])
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


torch.manual_seed(1337 + int(os.environ.get("RANK", 0)))
text = torch.arange(300) % 12
raw_model = GPT()
model = torch.compile(raw_model)
optimizer = torch.optim.AdamW(raw_model.parameters(), lr=3e-3, betas=(0.9, 0.95))
scaler = torch.amp.GradScaler("cpu", enabled=False)
for _ in range(40):
    for _ in range(2):
        ix = torch.randint(len(text) - 16, (4,))
        x = torch.stack([text[i : i + 16] for i in ix])
        y = torch.stack([text[i + 1 : i + 17] for i in ix])
        loss = model(x, y)[1] / 2
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
idx = torch.zeros((1, 1), dtype=torch.long)
with torch.no_grad():
    for _ in range(8):
        logits = model(idx)[0][:, -1, :] / 0.1
        logits[logits < torch.topk(logits, 3)[0][:, [-1]]] = -float("Inf")
        idx = torch.cat((idx, torch.multinomial(F.softmax(logits, dim=-1), 1)), dim=1)
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "ckpt.pt")
print(idx[0].tolist())
