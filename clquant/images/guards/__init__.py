"""What files of strangers may cost their reader, found before they are decoded."""
