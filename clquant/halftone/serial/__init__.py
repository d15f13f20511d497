"""The classic serial scan of error diffusion, in exact wavefronts."""
