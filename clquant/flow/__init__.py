"""Movement of data: the kinds of job that engines declare, and what runs them wherever pictures lie."""

from clquant.flow.executor import executor_for, fetch, reduce, run, verb
from clquant.flow.job import Carried, Job, Map, Portion, Reduce, Scan, Step, Steps
from clquant.flow.local import in_bands, state_of

__all__ = [
    "Carried",
    "Job",
    "Map",
    "Portion",
    "Reduce",
    "Scan",
    "Step",
    "Steps",
    "executor_for",
    "fetch",
    "in_bands",
    "reduce",
    "run",
    "state_of",
    "verb",
]
