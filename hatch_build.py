"""Puts the compiled kernels into a wheel: those for this CPU, or for what NPULAB_BUILD_CPUS names ("all": every x86-64 CPU).

Without them (NPULAB_BUILD_CPUS=none, or if they cannot be made, which is said) the wheel has Python alone, for every platform,
and kernels are compiled at the first run. An editable install gets the bytecode of its modules, as pip makes it for a wheel: a
process that may not write it (PYTHONDONTWRITEBYTECODE, common in containers) would compile all of them whenever it starts.
"""

from __future__ import annotations

import compileall
import os
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KernelBuildHook(BuildHookInterface[Any]):
    """Makes the libraries before the wheel is written."""

    folder: str | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the libraries to what the wheel includes."""
        if version == "editable":
            for package in self.build_config.packages:
                compileall.compile_dir(str(Path(self.root, package)), quiet=2)
            return
        wanted = os.environ.get("NPULAB_BUILD_CPUS", "")
        if wanted == "none" or sys.platform != "linux":
            return
        self.folder = tempfile.mkdtemp()
        try:
            machine, paths = _make(Path(self.root), Path(self.folder), wanted)
        except Exception as error:
            self.app.display_warning(f"the wheel is without compiled kernels, the first run will compile them: {error}")
            return
        build_data["force_include"].update({str(path): f"npu/native/libraries/{path.name}" for path in paths})
        build_data.update(pure_python=False, tag=f"py3-none-{_platform_tag(machine)}")

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """The wheel has them now."""
        if self.folder:
            shutil.rmtree(self.folder)


def _platform_tag(machine: str) -> str:
    """Where the wheel can be installed. The objects need names of the C library that every Linux has, and no version of it."""
    if sys.platform == "linux":
        return f"manylinux_2_17_{machine}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def _make(root: Path, folder: Path, wanted: str) -> tuple[str, list[Path]]:
    """The machine, and the files of all groups for the CPUs that are wanted."""
    sys.path.insert(0, str(root))
    from npu.native import cpu, makers, sources, store

    if wanted == "all":
        tiers = [tier for tier in cpu.TIERS if tier.machine == cpu.X86_64]
    else:
        tiers = [cpu.named(name) for name in wanted.split(",")] if wanted else [cpu.current()]
    (machine,) = {tier.machine for tier in tiers}
    paths = []
    for tier in tiers:
        for maker in makers.start(sources.GROUPS, tier, folder):
            maker.code()
            paths.append(folder / store.shipped_path(maker.group, tier).name)
    return machine, paths
