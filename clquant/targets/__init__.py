"""Targets of pictures: panels of e-paper, tiles of consoles and of maps. Only the command imports these."""
