#!/usr/bin/env python3
"""Rehearses published steps of real frameworks and prints both predictions beside each measured one.

python tests/rehearsed_steps/steps.py BUILD FOLDER [ROW...] [--evidence EVIDENCE] [--again]

FOLDER gets packages, sources and recordings. A row that was recorded before is priced again, without its script, unless
`--again` is given. The repositories of rows.json are taken from REPOSITORIES (an environment variable: a folder of git
directories named owner+name), or cloned. README.md says what rows.json holds.
"""

import argparse
import base64
import glob
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from typing import Any, Dict, List, Optional

HERE = os.path.dirname(os.path.abspath(__file__))
TOKENS = 128000   # of Llama 3, without its 256 special ones


class Bench:
    """What all rows share: the program, the folder and the table."""

    def __init__(self, build: str, folder: str, evidence: str) -> None:
        self.program = os.path.join(os.path.abspath(build), "meshwright")
        self.folder = os.path.abspath(folder)
        self.evidence = evidence
        with open(os.path.join(HERE, "rows.json"), encoding="utf-8") as file:
            self.table: Dict[str, Any] = json.load(file)
        os.makedirs(os.path.join(self.folder, "recordings"), exist_ok=True)

    def packages(self, names: str) -> str:
        """Returns a folder with these packages, without what they depend on.

        It is called site-packages because dill takes modules elsewhere for the script's own.
        """
        target = os.path.join(self.folder, names.replace(" ", "+").replace("=", "")[:60], "site-packages")
        if not os.path.isdir(target):
            part = target + ".part"   # so that an interrupted installation is begun again
            shutil.rmtree(part, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", part,
                            *names.split()], check=True, env={**os.environ, "DS_BUILD_OPS": "0"})
            os.rename(part, target)
        return target

    def source(self, repository: str, commit: str, without: List[str]) -> str:
        """Returns a folder with a repository's files at a commit."""
        target = os.path.join(self.folder, repository.replace("/", "+") + "-" + commit)
        if os.path.isdir(target):
            return target
        git = os.path.join(os.environ.get("REPOSITORIES", self.folder), repository.replace("/", "+"), "repo")
        if not os.path.isdir(git):
            subprocess.run(["git", "clone", "-q", "--bare", "https://github.com/" + repository, git], check=True)
        part = target + ".tar"
        subprocess.run(["git", "-C", git, "archive", "-o", part, commit, "--", ".", *(":!" + path for path in without)],
                       check=True, stderr=subprocess.DEVNULL)
        with tarfile.open(part) as archive:
            archive.extractall(target)
        os.remove(part)
        return target

    def tokenizer(self) -> str:
        """Returns a made tokenizer file of tiktoken's form, with as many tokens as Llama 3 has."""
        path = os.path.join(self.folder, "tokenizer.model")
        if not os.path.exists(path):
            with open(path, "w", encoding="ascii") as file:
                for number in range(TOKENS):
                    token = bytes([number]) if number < 256 else b"~" + number.to_bytes(3, "big")
                    file.write("{} {}\n".format(base64.b64encode(token).decode(), number))
        return path

    def published(self, row: Dict[str, Any]) -> Dict[str, Any]:
        with open(os.path.join(self.evidence, row["source"] + ".json"), encoding="utf-8") as file:
            return next(each for each in json.load(file)["rows"] if each["id"] == row["row"])

    def simulated(self, row: Dict[str, Any]) -> Optional[float]:
        """Returns what the job of the evidence is predicted to take, in seconds."""
        ran = subprocess.run([self.program, "validate", "--json", os.path.join(self.evidence, row["source"] + ".json")],
                             capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            return None
        found = [each for each in json.loads(ran.stdout)["rows"] if each["id"] == row["row"]]
        return found[0]["predicted_step_time_s"] if found else None

    def rehearsed(self, row: Dict[str, Any], again: bool) -> Dict[str, Any]:
        """Returns the answer of a rehearsal, and raises RuntimeError with its message if there is none."""
        recording = os.path.join(self.folder, "recordings", row["row"] + ".json")
        cluster = self.published(row)["job"]["cluster"]
        on = ["--on", cluster["machine"], "--count", str(cluster["count"]), "--json"]
        if os.path.exists(recording) and not again:
            return self._answer(["rehearse", *on, "--recording", recording], self.folder, {})
        framework = self.table["frameworks"][row["framework"]]
        place = self.source(framework["repository"], framework["commit"], framework.get("without", []))
        search = [place, self.packages(framework["packages"]), self.packages(self.table["common"])]
        for pattern in framework.get("built", []):   # compiled parts that a package has and the sources lack
            for path in glob.glob(os.path.join(search[1], pattern)):
                shutil.copy(path, os.path.join(place, os.path.relpath(path, search[1])))
        words = {"TOKENIZER": self.tokenizer() if "TOKENIZER" in row["command"] else ""}
        command = [words.get(word, word) for word in row["command"].split()]
        begin = time.monotonic()
        answer = self._answer(
            ["rehearse", *on, "--write-through", "--write", recording, "--", *command], place,
            {"TORCHINDUCTOR_CACHE_DIR": os.path.join(self.folder, "inductor"),
             "TRITON_CACHE_DIR": os.path.join(self.folder, "triton"),
             "PYTHONPATH": ":".join(search), "MESHWRIGHT_PYTHON": sys.executable, **framework.get("environment", {}),
             "PATH": os.path.dirname(sys.executable) + ":" + os.environ["PATH"]})
        answer["took_s"] = time.monotonic() - begin
        return answer

    def _answer(self, words: List[str], place: str, environment: Dict[str, str]) -> Dict[str, Any]:
        ran = subprocess.run([self.program, *words], cwd=place, capture_output=True, text=True, check=False,
                             env={**os.environ, **environment})
        if ran.returncode != 0:
            with open(os.path.join(self.folder, "error-{}.txt".format(int(time.time()))), "w", encoding="utf-8") as file:
                file.write(ran.stderr)
            raise RuntimeError(next((line for line in ran.stderr.splitlines() if line.startswith("meshwright")), "no message"))
        return json.loads(ran.stdout)


def percent(predicted: Optional[float], measured: float) -> str:
    return "-" if predicted is None else "{:+.1f} %".format(100 * (predicted / measured - 1))


def shown(bench: Bench, row: Dict[str, Any], again: bool) -> List[Optional[float]]:
    """Prints a row of the table. Returns the relative errors of both predictions."""
    measured = bench.published(row)["measured"]["step_time_s"]
    other = bench.simulated(row)
    try:
        answer = bench.rehearsed(row, again)
    except RuntimeError as error:
        print("| {} | {:.3f} s | {} | | {} |".format(row["row"], measured, error, percent(other, measured)), flush=True)
        return [None, None]
    step = answer["step_time_s"]
    print("| {} | {:.3f} s | {:.3f} s | {} | {} | {:.0f} ms idle, {:.0f} ms exposed, {:.0f} ms waiting | {:.1f} GiB |{}".format(
        row["row"], measured, step, percent(step, measured), percent(other, measured), 1e3 * answer["idle_s"],
        1e3 * answer["exposed_communication_s"], 1e3 * answer["waiting_s"], answer["peak_reserved_bytes"] / 2**30,
        " {:.0f} s".format(answer["took_s"]) if "took_s" in answer else ""), flush=True)
    return [step / measured - 1, None if other is None else other / measured - 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("folder")
    parser.add_argument("rows", nargs="*")
    parser.add_argument("--evidence", default="scenarios/evidence")
    parser.add_argument("--again", action="store_true")
    given = parser.parse_args()
    bench = Bench(given.build, given.folder, os.path.abspath(given.evidence))
    chosen = [row for row in bench.table["rows"] if not given.rows or row["row"] in given.rows]
    errors = [shown(bench, row, given.again) for row in chosen]
    for name, found in zip(("rehearsed", "simulated"), zip(*errors)):
        known = [each for each in found if each is not None]
        if known:
            print("{}: {} steps, mean error {:.1%}, bias {:+.1%}".format(
                name, len(known), sum(map(abs, known)) / len(known), sum(known) / len(known)))


if __name__ == "__main__":
    main()
