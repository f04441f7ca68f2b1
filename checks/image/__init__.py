"""Dockerfiles and compose files: recipes of images, not machines."""
