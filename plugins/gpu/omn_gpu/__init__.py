"""The gpu family: how busy graphics devices are, what they hold and draw, and which processes use them."""
