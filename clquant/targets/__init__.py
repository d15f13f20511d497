"""What pictures are for: panels of e-paper, tiles of consoles and of maps. Only the command imports these."""
