"""Programs that make the data clquant ships."""
