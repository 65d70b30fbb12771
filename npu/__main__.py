"""The programs: `npu`, which is `python -m npu` too, and those that stand for one of its commands.

Until the command line is loaded, which takes a moment, an interrupt ends a program without a word: nothing else comes first,
not even `signal`, which imports more than the module that it is made of.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]

TYPE_CHECKING = False  # that of `typing` takes longer to import than all of this
if TYPE_CHECKING:
    from typing import Any, NoReturn


def program(*command: str) -> NoReturn:
    """The command line of this process, behind the words of a command."""
    handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
    import sys

    from npu.garbage import collect_rarely

    collect_rarely()  # before anything else is imported: three modules of Python's are enough for seven searches
    from npu.stand_ins import load_python

    load_python()
    from npu.cli.main import end, main

    interrupts: list[int] = []

    def interrupted(number: int, _: Any) -> NoReturn:
        interrupts.append(number)
        raise KeyboardInterrupt

    sys.argv[1:1] = command
    try:
        signal.signal(signal.SIGINT, interrupted if handler is signal.default_int_handler else handler)
        code = main()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    except KeyboardInterrupt:  # between these lines
        code = 130
    except ImportError:  # what numpy makes of an interrupt while it is loaded
        if not interrupts:
            raise
        sys.stderr.write("npu: stopped\n")
        code = 130
    end(code)


def benchmark() -> NoReturn:
    """The console script npu-benchmark."""
    program("benchmark")


def inference_diff() -> NoReturn:
    """The console script npu-inference-diff."""
    program("inference-diff")


def eval_classification() -> NoReturn:
    """The console script npu-eval-classification."""
    program("eval-classification")


def eval_detection() -> NoReturn:
    """The console script npu-eval-detection."""
    program("eval-detection")


if __name__ == "__main__":
    program()
