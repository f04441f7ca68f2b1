"""The checks, a folder for each layer. A file holds checks and nothing that another file imports."""
