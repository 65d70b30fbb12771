"""Rules of shape inference: `common` says what a rule is."""
