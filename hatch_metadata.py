"""The metadata that need the project's public address: project URLs, and a README whose links work on an index page.

The address is one setting, `address` under `tool.hatch.metadata.hooks.custom` in pyproject.toml. While it is empty the package
names no URLs and its README is the file as it is.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)(\[[^][]*\])\((?![a-z][a-z+.-]*:|#)([^)\s]+)\)")
"""A link or picture whose target is a path: no scheme, no anchor of the same page."""
_FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)


class AddressMetadataHook(MetadataHookInterface):
    """Fills in `readme` and `urls`, which pyproject.toml declares as dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set what depends on the address."""
        address = self.config.get("address", "").rstrip("/")
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute_links(text, address) if address else text}
        if address:
            metadata["urls"] = urls(address)


def urls(address: str) -> dict[str, str]:
    """The project URLs, by the labels that package indexes know."""
    return {
        "Source": address,
        "Documentation": f"{address}/blob/HEAD/README.md#documentation",
        "Changelog": f"{address}/blob/HEAD/CHANGELOG.md",
        "Issues": f"{address}/issues",
    }


def absolute_links(markdown: str, address: str) -> str:
    """Relative links become links into the repository, pictures their contents; fenced samples stay as they are."""

    def absolute(link: re.Match[str]) -> str:
        picture, label, path = link.groups()
        return f"{picture}{label}({address}/{'raw' if picture else 'blob'}/HEAD/{path})"

    parts = _FENCED.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(absolute, part) for part in parts)
