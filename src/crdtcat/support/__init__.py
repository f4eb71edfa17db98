"""What all layers may lean on: locks and pools that survive a fork, interrupts, bytes, kinds of arguments."""
