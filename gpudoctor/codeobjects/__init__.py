"""Readers of native code: which GPU architectures a library carries, from its headers alone."""
