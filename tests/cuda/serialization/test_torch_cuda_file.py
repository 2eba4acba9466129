"""A file of PyTorch whose storages were on a GPU."""

from __future__ import annotations

import base64
import io
import zlib
from typing import Any

import pytest

import shmtensor as st
from shmtensor import cuda, nn

# torch.save of {"weight": base.view(2, 3).t(), "bias": Parameter([1.5, -2]), "tail": base[4:],
# "step": tensor(7)} with base = arange(6.), by PyTorch 2.13 on the CPU; its pickle says "cuda:0"
# here where it said "cpu", which is the only difference to a file from a GPU.
FILE = (
    "c-nQ7y>HV%7{<?bzA&X95J<~6<tvd;nuM(g(E+g>5~&eV78E(oH8!|$Ui(cDNJx=T3f({~Oo)}4fwdD;7ZxTE14G&P"
    "2N<}sTO3~-+pl##-|x9s&tuoAmdX=xJSshVxc&C`jduzmqGtJ=>07olU`uTi&2sOtJ5-+oDK;|v)f47)Yy`zZk1r}W"
    "`{=lV-t<|k@3`$IvToq{%|T5EwODLqIT7%cW`}_mA^IKHGx2^jsY9y4_aqfahw4_pZ7x?JLo*23RZ6Hv)eXo|g=!mc"
    "Xw$Mh*JTzuUN_M1`EBO2_HD;P9rTg`hY_X>IMPUQp_XF?Fg>Bkp6Q$G44JRPjLqA$H9Kmf3bS^Gst9vpZ*>GmsWO6N"
    "o3@b8BOEv2#H;Y3@Dk<?SP1t*({bVCo{*ik!}d?D(v*-mEhNrF5@!+48E`(N0%Se75K+6%-1WMh|Hdqa9o66>ms1cf"
    "@s3KRNaixa6$7sJ%k@NxpZ|P+AsA7Gu@uW|p1*ElbHMz7J6BCoqnp1Lg!Q84#;Dd)WS+3tbr4;agbJ^B-puo{sA=hg"
    "S*nD~$nX}wt?-N2kk^Nmq{i~KpW8V;&K;ytC1gwRTS=z(ZO5C))UwgWB*}bz-+7?&v8b6bX4j7EdYvk2UYq<k>>Wd4"
    "?7n|PrsWi3`in9#6InzKB^LRs91xL=%kji`Rh7e%Svi)N?aORcX61Nd_M^<!WLAzTW`C&rLaWoXu!dy$`H4F+rHQA1"
    "7L*>;"
)  # fmt: skip


def file() -> io.BytesIO:
    return io.BytesIO(zlib.decompress(base64.b85decode(FILE)))


def check(loaded: Any, device: str) -> None:
    assert loaded["weight"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert loaded["bias"].tolist() == [1.5, -2]
    assert isinstance(loaded["bias"], nn.Parameter)
    assert loaded["tail"].tolist() == [4, 5]
    assert loaded["step"].item() == 7
    assert {str(x.device) for x in loaded.values()} == {device}
    loaded["tail"][0] = 40  # a view of the same memory as "weight"
    assert loaded["weight"][1, 1].item() == 40


def test_on_the_cpu() -> None:
    for map_location in ("cpu", {"cuda:0": "cpu"}, lambda storage, location: storage):
        check(st.load(file(), map_location=map_location), "cpu")


def test_on_the_gpu(cp: Any) -> None:
    check(st.load(file()), "cuda:0")
    check(st.load(file(), map_location="cuda"), "cuda:0")


def test_a_missing_gpu_names_map_location() -> None:
    if cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(RuntimeError, match=r"is_available\(\) is False.*map_location='cpu'"):
        st.load(file())
