"""clquant.quadtree."""
