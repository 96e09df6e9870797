"""What families of layers share."""
