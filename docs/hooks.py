"""Builds the site from the pages as they lie in the repository, so that their links work in both places.

Pages outside docs/ are part of the site below `repository/`, each under its own path. A link leads from one file of the
repository to another; here it becomes the link between their places on the site.
"""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import dirname, join, normpath, relpath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
ELSEWHERE = "repository"
OUTSIDE = (
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "LICENSE",
    "rules/README.md",
    "rules/CITATIONS.md",
    "tests/README.md",
)
_LINK = re.compile(r"\]\((?P<path>[^()#:\s]+)(?P<anchor>#[^()\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that lie outside docs/."""
    for path in OUTSIDE:
        files.append(File.generated(config, join(ELSEWHERE, path), abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Returns the text of a page with each link to a file of the repository as one to its place on the site.

    On `operators/playbook.md`, `../../rules/README.md#add-a-rule` becomes `../repository/rules/README.md#add-a-rule`.
    """
    here = page.file.src_uri

    def on_site(link: re.Match[str]) -> str:
        target = _to_site(normpath(join(dirname(_in_repository(here)), link["path"])))
        return f"]({relpath(target, dirname(here) or '.')}{link['anchor'] or ''})"

    return _LINK.sub(on_site, markdown)


def _in_repository(uri: str) -> str:
    return uri.removeprefix(f"{ELSEWHERE}/") if uri.startswith(f"{ELSEWHERE}/") else join("docs", uri)


def _to_site(path: str) -> str:
    return path.removeprefix("docs/") if path.startswith("docs/") else join(ELSEWHERE, path)
