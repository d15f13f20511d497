"""Movement of data: the kinds of job that engines declare, and their drivers for pictures wherever these lie."""

from clquant.flow.driver import here, in_bands, reduce, run, state_of
from clquant.flow.job import Carried, Job, Map, Portion, Reduce, Scan, Step, Steps

__all__ = [
    "Carried",
    "Job",
    "Map",
    "Portion",
    "Reduce",
    "Scan",
    "Step",
    "Steps",
    "here",
    "in_bands",
    "reduce",
    "run",
    "state_of",
]
