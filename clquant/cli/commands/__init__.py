"""One module per subcommand, each with `HELP` (one line), `configure(parser)` and `run(args) -> int`."""
