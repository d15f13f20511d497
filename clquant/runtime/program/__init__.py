"""OpenCL programs: sources, builds, variants, tuned parameters."""
