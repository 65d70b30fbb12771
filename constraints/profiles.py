"""The list of profiles by name: the only place where a profile becomes known to the checker and the command line."""

from __future__ import annotations

from collections.abc import Callable

from constraints import u55_u65, v0_1
from constraints.rule import Profile
from npu.arguments import require_type
from npu.errors import ConfigError


def _xnnpack() -> Profile:
    from constraints.xnnpack import xnnpack_profile  # two hundred rules, which few commands read

    return xnnpack_profile()


_PROFILES: dict[str, Callable[[], Profile]] = {
    "u55-u65": lambda: u55_u65.PROFILE,
    "v0.1": lambda: v0_1.PROFILE,
    "xnnpack": _xnnpack,
}


def profile_names() -> tuple[str, ...]:
    """Names that `profile_named` knows."""
    return tuple(_PROFILES)


def profile_named(name: str) -> Profile:
    """The profile of a name, with its default options. Raises ConfigError for an unknown name."""
    require_type("profile", name, str, "a name")
    if name not in _PROFILES:
        raise ConfigError(f"profile: must be one of {', '.join(_PROFILES)}, got {name!r}")
    return _PROFILES[name]()
