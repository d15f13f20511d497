"""Device and host memory of jobs, and what is cached between them."""
