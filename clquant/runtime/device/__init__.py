"""OpenCL devices: discovery, limits, processes that forked."""
