"""How much the daemon costs beside the broker's client that it works with, measured against a real broker."""
