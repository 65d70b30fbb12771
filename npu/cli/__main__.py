"""`python -m npu.cli` is the command `npu`."""

import sys

from npu.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
