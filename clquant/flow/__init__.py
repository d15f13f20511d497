"""Movement of data: the kinds of job that engines declare, and what runs them wherever pictures lie."""

from clquant.flow.executor import executor_for, fetch, reduce, run, verb
from clquant.flow.job import Carried, Job, Map, Portion, Reduce, Scan, Step, Steps
from clquant.flow.local import in_bands, state_of
from clquant.flow.source import PictureSource, is_stored, open_picture, open_pictures

__all__ = [
    "Carried",
    "Job",
    "Map",
    "PictureSource",
    "Portion",
    "Reduce",
    "Scan",
    "Step",
    "Steps",
    "executor_for",
    "fetch",
    "in_bands",
    "is_stored",
    "open_picture",
    "open_pictures",
    "reduce",
    "run",
    "state_of",
    "verb",
]
