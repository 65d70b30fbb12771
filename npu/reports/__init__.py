"""What is said of a model, as records and JSON: of a check, a compilation and a run, operator by operator."""
