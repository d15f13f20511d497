"""What palette engines share: their verbs, a target quality, animations."""
