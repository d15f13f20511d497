"""The .clvq files: their layout, writing and reading, what they tell of themselves, and chunks of arrays."""
