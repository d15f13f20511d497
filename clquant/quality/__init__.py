"""Differences of two pictures: mean squared error, PSNR, structural similarity, and what an eye would see."""

from clquant.quality.differences import blurred_color_difference, color_difference
from clquant.quality.similarity import ssim
from clquant.quality.squared_error import mse, psnr
from clquant.quality.visual import speck_error, visual_error

__all__ = ["blurred_color_difference", "color_difference", "mse", "psnr", "speck_error", "ssim", "visual_error"]
