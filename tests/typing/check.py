"""mypy and pyright on users' programs, against the installed package:
`python -m tests.typing.check PYTHON`.

PYTHON is the interpreter of an environment in which shmtensor is installed (not in place); this one
has the tests' packages, mypy and basedpyright: pyright with its JavaScript in the wheel, here in
pyright's mode "standard". Programs are in `programs/` and written by `generated.py`: what a line's
comment says must be what both say of it, and they must find nothing else.

    reveal_type(x)  # -> Tensor      the type, without the names of modules
    st.ones("3")  # wrong            there must be an error
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.typing import generated

HERE = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
CONFIG = {"typeCheckingMode": "standard", "reportUnusedExpression": False}
KNOWN = 85.0  # percent of the public symbols whose type `--verifytypes` knows, at least

# What a checker says: (file, line) -> the types revealed there, and the errors.
Findings = tuple[dict[tuple[str, int], list[str]], dict[tuple[str, int], list[str]]]


def main(python: str) -> int:
    python = os.path.abspath(python)  # the links of an environment stay
    with tempfile.TemporaryDirectory() as folder:
        programs = Path(folder)
        for path in sorted((HERE / "programs").glob("*.py")):
            shutil.copy(path, programs)
        for name, text in generated.programs().items():
            (programs / name).write_text(text)
        (programs / "pyrightconfig.json").write_text(json.dumps(CONFIG))
        with ThreadPoolExecutor(2) as threads:
            checks = {"mypy": threads.submit(mypy, programs, python)}
            checks["pyright"] = threads.submit(pyright, programs, python)
            known = threads.submit(completeness, programs, python)
            failures = [
                f"{checker}: {failure}"
                for checker, findings in checks.items()
                for failure in differences(programs, findings.result())
            ]
        texts = [path.read_text() for path in programs.glob("*.py")]
    revealed, wrong = (sum(text.count(mark) for text in texts) for mark in ("  # -> ", "  # wrong"))
    print(
        f"{len(texts)} programs, {revealed} types, {wrong} wrong uses; of the public symbols "
        f"{known.result():.1f} % have a known type"
    )
    if known.result() < KNOWN:
        failures.append(
            f"known types: at least {KNOWN} % are needed: {known.result():.1f}, hint: "
            "`basedpyright --verifytypes shmtensor --ignoreexternal`, an attribute of Tensor "
            "without a type makes all functions of tensors ambiguous"
        )
    if failures:
        print(*failures, sep="\n")
    return len(failures) > 0


def mypy(programs: Path, python: str) -> Findings:
    command = [
        str(BIN / "mypy"), "--strict", "--python-executable", python, "--no-error-summary",
        "--hide-error-context", "--disable-error-code=unused-ignore", "--output=json",
        *(path.name for path in sorted(programs.glob("*.py"))),
    ]  # fmt: skip
    revealed, errors = defaultdict(list), defaultdict(list)
    for line in run(command, programs).splitlines():
        finding = json.loads(line)
        place = Path(finding["file"]).name, finding["line"]
        text = finding["message"]
        if finding["severity"] == "error":
            errors[place].append(text)
        elif text.startswith("Revealed type is "):
            revealed[place].append(short(text.removeprefix("Revealed type is ").strip('"')))
    return revealed, errors


def pyright(programs: Path, python: str) -> Findings:
    command = [str(BIN / "basedpyright"), "--outputjson", "--pythonpath", python]
    revealed, errors = defaultdict(list), defaultdict(list)
    for finding in json.loads(run(command, programs))["generalDiagnostics"]:
        place = Path(finding["file"]).name, finding["range"]["start"]["line"] + 1
        text = finding["message"]
        if finding["severity"] == "error":
            errors[place].append(text.splitlines()[0])
        elif found := re.fullmatch(r'Type of ".*" is "(.*)"', text, re.DOTALL):
            revealed[place].append(short(found[1]))
    return revealed, errors


def completeness(programs: Path, python: str) -> float:
    """How many percent of the package's public symbols have a type that all checkers see alike."""
    # `--pythonpath` is not heeded here.
    bin = str(Path(python).parent)
    env = {"PATH": os.pathsep.join([bin, os.environ["PATH"]]), "VIRTUAL_ENV": str(Path(bin).parent)}
    command = [str(BIN / "basedpyright"), "--verifytypes", "shmtensor", "--ignoreexternal"]
    out = run([*command, "--outputjson"], programs, env)
    return 100 * float(json.loads(out)["typeCompleteness"]["completenessScore"])


def run(command: list[str], folder: Path, env: dict[str, str] | None = None) -> str:
    """The standard output of a checker, which fails where it finds an error."""
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **(env or {})}, capture_output=True, text=True
    )
    if done.stderr.strip() or not done.stdout:
        sys.exit(f"{command[0]}: exit {done.returncode}: {done.stderr or 'no output'}")
    return done.stdout


def short(text: str) -> str:
    """A type without the names of modules; of a tuple with named fields its own name."""
    inner = r"[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*"
    text = re.sub(rf"tuple\[{inner}, fallback=([\w.]+)\]", r"\1", text)
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", text)


def differences(programs: Path, findings: Findings) -> list[str]:
    """Where a checker says something else than the programs."""
    revealed, errors = findings
    failures = []
    for path in sorted(programs.glob("*.py")):
        for n, line in enumerate(path.read_text().splitlines(), 1):
            place = (path.name, n)
            where = f"{path.name}:{n}: {line.strip()}"
            if is_wrong := line.endswith("# wrong"):
                if place not in errors:
                    failures.append(f"{where}: no error")
            elif place in errors:
                failures.append(f"{where}: {errors[place]}")
            comment = re.search(r"# -> (.*)$", line)
            if comment and not is_wrong:
                allowed = comment[1].split(" or ")
                if len(revealed[place]) != 1 or revealed[place][0] not in allowed:
                    failures.append(f"{where}: revealed {revealed[place]}")
    return failures


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
