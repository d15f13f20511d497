"""Block-interlaced pinwheel error diffusion, to levels and to palettes."""
