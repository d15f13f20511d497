"""Trees of merges: states of many tasks become one on the workers that have them.

What is merged first depends on which tasks end first and where; the result does not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from dask import compute, delayed

from clquant.dask.work import client, cluster_errors, release
from clquant.runtime import Progress

MERGED_AT_ONCE = 8
Merge = Callable[[Sequence[Any]], Any]


def few_of(states: Sequence[Any], merge: Callable[[Sequence[Any]], Any]) -> list[Any]:
    """Merge in groups until one task can merge the rest."""
    level = list(states)
    while len(level) > MERGED_AT_ONCE:
        level = [merge(level[i : i + MERGED_AT_ONCE]) for i in range(0, len(level), MERGED_AT_ONCE)]
    return level


def tree(merge: Merge, states: Sequence[Any]) -> Any:
    """Merge delayed values to one delayed value."""
    later = delayed(merge, pure=False)
    few = few_of(states, later)
    return few[0] if len(few) == 1 else later(few)


@cluster_errors()
def merged(last: Merge, merge: Merge, tasks: Sequence[Any], report: Progress) -> Any:
    """Merge the values of delayed tasks or futures in a tree; return `last` of the remaining few."""
    cluster, total = client(), len(tasks) + 1
    report.report(0, total)
    if cluster is None:
        (found,) = compute(delayed(last, pure=False)(few_of(tasks, delayed(merge, pure=False))))
    else:
        found = _on_cluster(cluster, last, merge, tasks, report)
    report.report(total, total)
    return found


def _on_cluster(cluster: Any, last: Merge, merge: Merge, tasks: Sequence[Any], report: Progress) -> Any:
    from distributed import as_completed

    futures, made = cluster.compute(list(tasks)), list[Any]()
    waiting: defaultdict[str, list[Any]] = defaultdict(list)  # by worker

    def together(states: Sequence[Any], place: str = "") -> Any:
        where = {"workers": [place], "allow_other_workers": True} if place else {}
        made.append(cluster.submit(merge, list(states), pure=False, **where))
        return made[-1]

    try:
        done = 0
        for batch in as_completed(futures).batches():
            known = cluster.who_has(batch)
            for future in batch:
                if future.status != "finished":
                    future.result()  # raises
                place = next(iter(known.get(future.key, ())), "")
                own = waiting[place]
                if len(own) == MERGED_AT_ONCE:  # only then, so that `last` has some to merge
                    own[:] = [together(own, place)]
                own.append(future)
            done += len(batch)
            report.report(done, len(tasks) + 1)
        left = [state for own in waiting.values() for state in own]
        if len(waiting) > 1:
            left = [own[0] if len(own) == 1 else together(own, place) for place, own in waiting.items()]
        return cluster.submit(last, few_of(left, together), pure=False).result()
    finally:
        release(futures)
        release(made)
