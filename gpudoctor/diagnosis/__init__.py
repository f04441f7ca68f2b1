"""What `check` does, without a command-line library: where the machine comes from, its judgement, its report."""
