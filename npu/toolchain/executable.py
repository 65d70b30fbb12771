"""From what the user names to a model that runs: compiled first if need be, with the map of its operators."""

from __future__ import annotations

from dataclasses import replace

from npu.digests import sha256
from npu.errors import ModelError, stream_errors_at
from npu.graph.ethos_u import is_compiled
from npu.progress import Progress
from npu.toolchain.compile import compile_in_session, unread_notes
from npu.toolchain.origin import Origin, match_notes
from npu.toolchain.session import Executable, Session
from npu.toolchain.sources import Source, contents, given, model_name, parse, settled
from sim.container import CompiledFile

SIZES_ARE_ESTIMATES = (
    "weights were not encoded: their compressed sizes are estimates, which changes cycles by about 1 % at most"
)


def prepare(
    model: Source,
    session: Session,
    progress: Progress | None = None,
    *,
    with_weights: bool = True,
    origin: Origin | None = None,
) -> Executable:
    """A plain model is compiled; a compiled file picks its variant by its configuration word unless one is asked for.

    Without weights, a plain model can be timed, not run. `origin` gives the operators of a compiled file their names.
    """
    model = given(model)
    content = contents(model)
    key, told = sha256(content), origin or Origin()
    executable = session.executables.get(
        (key + told.digest, with_weights),
        lambda: _prepare(model, content, key, session, progress, told, with_weights=with_weights),
    )
    return replace(executable, name=model_name(model))


def _prepare(
    model: Source, content: bytes, key: str, session: Session, progress: Progress | None, origin: Origin, *, with_weights: bool
) -> Executable:
    source, name = parse(model, content), model_name(model)
    if is_compiled(source):
        with stream_errors_at(name):
            file = CompiledFile(settled(source), session.variant_of(source, name))
            operators = origin.map_of(file, name)
            return Executable(file, name, operators, key, match_notes(operators))
    if origin != Origin():
        raise ModelError(f"{name}: --source and --debug-db are for compiled files, but this is a plain model")
    compilation = compile_in_session(source, name, session, progress=progress, with_weights=with_weights)
    notes = (*compilation.gate_notes(), *unread_notes(source), *(() if with_weights else (SIZES_ARE_ESTIMATES,)))
    return Executable(compilation.file(), name, compilation.operators, key, notes)
