"""The path under which `shown_palette` is documented; the encoder is `clquant.color.formats.sixel`."""

from clquant.color.formats.sixel import shown_palette

__all__ = ["shown_palette"]
