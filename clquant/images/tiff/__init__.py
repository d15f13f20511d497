"""TIFF files: directories, GeoTIFF, pictures that Pillow does not read."""
