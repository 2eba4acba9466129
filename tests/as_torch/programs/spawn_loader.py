"""A loader whose workers are spawned, with samples large and small, for several epochs."""

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info, random_split


class Images(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, i):
        return {"x": torch.full((3, 128, 128), float(i)), "y": i, "worker": get_worker_info().id}


class Numbers(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        return iter(range(info.id, 8, info.num_workers))


if __name__ == "__main__":
    for method in ("spawn", "forkserver", "fork"):
        options = {"num_workers": 2, "multiprocessing_context": method}
        loader = DataLoader(Images(), batch_size=3, persistent_workers=True, **options)
        for _ in range(2):
            batches = list(loader)
            assert [b["y"].tolist() for b in batches] == [[0, 1, 2], [3, 4, 5]]
            assert all(torch.equal(b["x"][:, 2, 5, 7], b["y"].float()) for b in batches)
            assert all(set(b["worker"].tolist()) <= {0, 1} for b in batches)
        stream = DataLoader(Numbers(), batch_size=2, **options)
        assert sorted(n for b in stream for n in b.tolist()) == list(range(8))
        halves = random_split(range(10), [4, 6], generator=torch.Generator().manual_seed(1))
        assert sorted([*halves[0], *halves[1]]) == list(range(10))
    print("loaded")
