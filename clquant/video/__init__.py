"""Moving pictures: `frames` of films and animated files, and `animate`, which reduces them to few colours."""

from clquant.images.moving import Frame
from clquant.video.animation import Animation
from clquant.video.frames import Frames, frames
from clquant.video.one_call import animate

__all__ = ["Animation", "Frame", "Frames", "animate", "frames"]
