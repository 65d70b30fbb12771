"""What a byte of SRAM is worth: cycles and SRAM of models beside Vela's, by the price at which copies of weights take memory.

Usage: python -m benchmarks.price_of_memory [--prices 0,0.1] [--targets x,y] [--models a,b] [--vela FOLDER] [--write PAGE.md]

The price is PRICE_OF_MEMORY of `npu/compiler/passes/price_copies.py`. Cells are those of `benchmarks.compiler_quality`.
Needs the test extra (Vela).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import npu
from benchmarks.compiler_quality import Cell, Quality, judge, summary, vela_file
from npu.compiler.passes import price_copies
from npu.errors import UserError

from tests.support.shared import shared_models

PRICES = (0.0, 0.05, 0.1, 0.3)
TARGETS = ("ethos-u55-32", "ethos-u55-256", "ethos-u65-256")


def compile_at(price: float, source: Path, target: str) -> Quality:
    """What the compiler makes of a model at a price."""
    usual = price_copies.PRICE_OF_MEMORY
    try:
        price_copies.PRICE_OF_MEMORY = price
        with tempfile.TemporaryDirectory() as folder:
            ours = Path(folder) / "ours.tflite"
            npu.compile(source, target=target).save(ours)
            return judge(ours, target)
    finally:
        price_copies.PRICE_OF_MEMORY = usual


def cells_of(source: Path, target: str, prices: Sequence[float], folder: Path) -> Iterator[tuple[float, Cell]]:
    """A cell for every price; none where either compiler refuses the model."""
    theirs = vela_file(source, target, folder, "performance")
    if not theirs.exists():
        return
    try:
        vela = judge(theirs, target)
        for price in prices:
            yield price, Cell(source.stem, target, compile_at(price, source, target), vela)
    except UserError:
        return


def page(cells: Sequence[tuple[float, Cell]], prices: Sequence[float], targets: Sequence[str]) -> Iterator[str]:
    """The published table."""
    yield "# What a byte of SRAM is worth\n"
    price = price_copies.PRICE_OF_MEMORY
    yield "`--optimise performance` copies weights ahead, so that kernels do not wait for them."
    yield "Of a plan whose copies take about what feature maps leave free, some with less room for them and some with more"
    yield "it takes the one whose estimated cycles times its bytes to the power of a price are least."
    yield "The table shows what prices give: geometric means beside Vela 5.2's files for performance,"
    yield "in brackets the cells above 1.00. Made by"
    yield "`python -m benchmarks.price_of_memory --write docs/price-of-memory.md`.\n"
    small, tiny, many = price_copies.SMALL_PARTS, price_copies.TINY_PARTS, price_copies.MANY_PART
    yield f"The compiler's price is {price}: twice the memory must save {1 - 2**-price:.0%} of the cycles. Of a fast"
    yield f"memory that only the NPU uses, as on Ethos-U65, a part of 1/{small[True]} costs nothing, of one that it shares"
    yield f"1/{small[False]}. `--optimise size` pays the same price for every byte, and copies into a memory of the NPU alone:"
    yield f"at most 1/{tiny[False]} of that with the maps, 1/{tiny[True]} where one operator has weights for 1/{many} of it.\n"
    yield "| price | twice the memory saves at least | target | total cycles | SRAM |\n| ---: | ---: | --- | ---: | ---: |"
    for price in prices:
        for target in targets:
            total, _, _, sram, _ = summary([cell for at, cell in cells if at == price], target)
            yield f"| {price:g} | {1 - 2**-price:.1%} | {target} | {total} | {sram} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--prices", type=lambda text: [float(one) for one in text.split(",")], default=list(PRICES))
    parser.add_argument("--targets", type=lambda text: text.split(","), default=list(TARGETS))
    parser.add_argument("--models", type=lambda text: text.split(","))
    parser.add_argument("--vela", type=Path, metavar="FOLDER", help="keep Vela's files here")
    parser.add_argument("--write", type=Path, metavar="PAGE.md")
    options = parser.parse_args()
    known = {**shared_models(), **{path.stem: path for path in Path("examples").glob("*.tflite")}}
    cells: list[tuple[float, Cell]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, source in known.items():
            if options.models is None or name in options.models:
                for target in options.targets:
                    cells += cells_of(source, target, options.prices, options.vela or Path(folder))
                sys.stderr.write(f"{name}\n")
    text = "\n".join(page(cells, options.prices, options.targets)) + "\n"
    if options.write:
        options.write.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
