"""Lists the packages of the three folders that make up the distribution; all else is in pyproject.toml."""

from setuptools import find_namespace_packages, setup

FOLDERS = {"tidemill": "python/tidemill", "tidemill.rules": "rules", "tidemill.cost_model": "cost_model"}

setup(
    packages=[
        name
        for package, folder in FOLDERS.items()
        for name in [
            package,
            *(f"{package}.{sub}" for sub in find_namespace_packages(folder, exclude=["*__pycache__*", "jars"])),
        ]
    ]
)
