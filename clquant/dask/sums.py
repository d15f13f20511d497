"""Sums of what tasks give, made on the workers that have it, so that little is sent and the last sums are few.

What is added first depends on which tasks end first and where; the sums do not.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dask import compute, delayed

from clquant.dask.work import MERGED_AT_ONCE, branches, client, release
from clquant.runtime import Progress

Merge = Callable[[Sequence[Any]], Any]


def of_sums(last: Merge, merge: Merge, parts: Sequence[Any], report: Progress) -> Any:
    """Merge the values of many tasks to a few, and return `last` of these; no merge depends on the order."""
    there, total = client(), len(parts) + 1
    report.report(0, total)
    if there is None:
        (found,) = compute(delayed(last, pure=False)(branches(merge, parts)))
    else:
        found = _on_cluster(there, last, merge, parts, report)
    report.report(total, total)
    return found


def _on_cluster(there: Any, last: Merge, merge: Merge, parts: Sequence[Any], report: Progress) -> Any:
    from distributed import as_completed

    futures, sums = there.compute(list(parts)), _Sums(there, merge)
    try:
        done = 0
        for batch in as_completed(futures).batches():
            for future in batch:
                if future.status != "finished":
                    future.result()  # raises
            sums.add(batch)
            done += len(batch)
            report.report(min(done, len(parts)), len(parts) + 1)
        return there.submit(last, list(sums.few()), pure=False).result()
    finally:
        release(futures)
        sums.close()


class _Sums:
    """Futures of values and of their sums, by worker and by how often they were added up."""

    def __init__(self, there: Any, merge: Merge) -> None:
        self._client = there
        self._merge = merge
        self._groups: dict[str, defaultdict[int, list[Any]]] = defaultdict(lambda: defaultdict(list))
        self._all: list[Any] = []

    def add(self, futures: Sequence[Any]) -> None:
        """Take values that are there."""
        known = self._client.who_has(futures)
        for future in futures:
            place = next(iter(known.get(future.key, ())), "")
            self._take(future, place, 0)

    def few(self) -> Iterator[Any]:
        """A value of each worker, or the last ones of the only one."""
        groups = {place: list(itertools.chain(*levels.values())) for place, levels in self._groups.items()}
        if len(groups) == 1:
            (left,) = groups.values()
        else:
            left = [self._sum(group, place) if len(group) > 1 else group[0] for place, group in groups.items()]
        while len(left) > MERGED_AT_ONCE:
            left = [self._sum(left[i : i + MERGED_AT_ONCE], "") for i in range(0, len(left), MERGED_AT_ONCE)]
        return iter(left)

    def close(self) -> None:
        """Release the sums."""
        release(self._all)

    def _take(self, future: Any, place: str, level: int) -> None:
        """Add a value to its group; a full group is summed when more comes, so that the last values are left."""
        group = self._groups[place][level]
        if len(group) == MERGED_AT_ONCE:
            self._groups[place][level] = []
            self._take(self._sum(group, place), place, level + 1)
        self._groups[place][level].append(future)

    def _sum(self, futures: list[Any], place: str) -> Any:
        where = {"workers": [place], "allow_other_workers": True} if place else {}
        made = self._client.submit(self._merge, futures, pure=False, **where)
        self._all.append(made)
        return made
