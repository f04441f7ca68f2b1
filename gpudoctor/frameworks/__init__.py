"""One folder for each framework: its builds, its coverage, its files, its fixes."""
