"""What a device can do, measured: rates of copies, arithmetic and access, costs of launches, times of calls."""

from benchmarks.measure.rates import DeviceRates, device_rates, kernel_ms
from benchmarks.measure.timing import Timing, time_call

__all__ = ["DeviceRates", "Timing", "device_rates", "kernel_ms", "time_call"]
