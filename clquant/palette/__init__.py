"""The base of palette engines: their verbs, a target quality, animations."""
