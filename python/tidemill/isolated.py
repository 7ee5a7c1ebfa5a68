"""Starts a module as a program in Python's isolated mode, which imports nothing from the working directory.

    python -I -c TEXT_OF_THIS_FILE MODULE

The standard library comes first, then the absolute folders of PYTHONPATH, then the installed packages, those of the
user included. An empty or relative entry of PYTHONPATH means another folder in each place, and is left out. The JVM
finds this file in the jar.
"""

import os
import runpy
import site
import sys


def with_folders(path: list[str], named: list[str]) -> list[str]:
    """Returns a search path with the absolute ones of these folders before the first folder of installed packages.

    >>> with_folders(["/lib/python3", "/env/site-packages"], ["", "lib", "/mine"])
    ['/lib/python3', '/mine', '/env/site-packages']
    """
    installed = ("site-packages", "dist-packages")
    first = next((n for n, folder in enumerate(path) if os.path.basename(folder) in installed), len(path))
    return [*path[:first], *(folder for folder in named if os.path.isabs(folder)), *path[first:]]


def main() -> None:
    """Runs the module that the first argument names."""
    if sys.prefix == sys.base_prefix and not os.environ.get("PYTHONNOUSERSITE"):
        site.addsitedir(site.getusersitepackages())
    sys.path[:] = with_folders(sys.path, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.argv[:] = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
