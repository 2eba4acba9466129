"""The tests of the stand-in itself are not even collected where it is not built, but for one that
says why.
"""

from __future__ import annotations

from tests.cuda.standin.install import missing

collect_ignore_glob = ["test_[!a]*.py"] if missing() else []
