"""Modules in a working directory that others may write to, which no Python of Tidemill may import."""

from pathlib import Path

NAMES = (
    *("logging", "json", "signal", "dataclasses", "typing", "site", "sitecustomize", "usercustomize", "encodings"),
    *("tidemill", "py4j", "pyspark", "cattrs", "sqlparse", "errors"),
)


def lay_traps(folder: Path) -> Path:
    """Writes the modules. Returns the file to which one that is imported adds its name."""
    seen = folder / "imported"
    for name in NAMES:
        (folder / f"{name}.py").write_text(f"open({str(seen)!r}, 'a').write({name + chr(10)!r})\n")
    return seen
