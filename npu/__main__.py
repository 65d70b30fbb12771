"""`python -m npu` is the command `npu`."""

import signal
import sys


def program() -> int:
    """The command. Until it is loaded, which takes a moment, an interrupt ends it without a word."""
    handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
    from npu.cli.main import main

    signal.signal(signal.SIGINT, handler)
    return main()


if __name__ == "__main__":
    sys.exit(program())
