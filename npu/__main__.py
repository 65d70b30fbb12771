"""`python -m npu` is the command `npu`."""

import signal
from typing import NoReturn


def program() -> NoReturn:
    """The command. Until it is loaded, which takes a moment, an interrupt ends it without a word."""
    handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
    from npu.cli.main import end, main

    signal.signal(signal.SIGINT, handler)
    end(main())


if __name__ == "__main__":
    program()
