"""`python -m portability.check_hashes`: the hashes of `clquant devices --check` anew, by the default device."""

from __future__ import annotations

import json
import pathlib

import clquant
from clquant import check, runtime


def main() -> None:
    """Write the file that the package ships."""
    queue = runtime.default_queue()
    found = {name: check.digest(job(queue)) for name, job in check.JOBS.items()}
    path = pathlib.Path(clquant.__file__).with_name(check.HASHES)
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
