"""The statements, a file each, and the way to them."""
