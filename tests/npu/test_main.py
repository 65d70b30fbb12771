"""The start of the program."""

from __future__ import annotations

import signal
import subprocess
import sys

import numpy as np

INTERRUPTED = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "npu.cli.main":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
from npu.__main__ import program
program()
"""


def test_an_interrupt_while_the_program_is_loaded_ends_it_without_a_word() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


SWALLOWED = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "npu.errors":
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                raise ImportError("an interrupt, as numpy tells it")
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever the tests were started with
import npu.cli.main
sys.meta_path.insert(0, Finder())
sys.modules.pop("npu.errors", None)
from npu.__main__ import program
program()
"""


def test_an_interrupt_that_an_import_makes_an_error_of_stops_the_program() -> None:
    command = [sys.executable, "-c", SWALLOWED, "run", "examples/digits.tflite"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "npu: stopped\n")


def test_the_program_runs_the_command_of_the_process() -> None:
    done = subprocess.run([sys.executable, "-m", "npu", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("npulab ")


LOADED = """
from npu.cli.main import main
code = main()
import numpy, numpy.ma, numpy.random
print(code, numpy.ndarray.__doc__, numpy.ma.masked_less([1, 5], 3).sum())
"""


def test_the_program_loads_numpy_without_writing_its_docstrings() -> None:
    """As `python -OO` does it, so that numpy is ready for that."""
    command = [sys.executable, "-c", LOADED, "check", "examples/digits.tflite"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    words = done.stdout.splitlines()[-1].split()
    assert (words[0], words[-1]) == ("0", "5")
    assert np.lib.NumpyVersion(np.__version__) < "2.0.0" or words[1] == "None"
