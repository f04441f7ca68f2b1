"""Dockerfiles and compose files, read as what the image will hold and how it will be started."""
