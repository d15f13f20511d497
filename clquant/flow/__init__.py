"""How data moves: the kinds of job that engines declare, and what runs them on pictures wherever these lie."""

from clquant.flow.driver import in_bands, run
from clquant.flow.job import Carried, Map, Portion, Scan, Steps

__all__ = ["Carried", "Map", "Portion", "Scan", "Steps", "in_bands", "run"]
