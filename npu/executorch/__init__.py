"""ExecuTorch programs (.pte) whose Ethos-U delegate holds a command stream of Vela's: read as compiled models."""
