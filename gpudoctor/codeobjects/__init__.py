"""Readers of native code: which GPU architectures a library has code for, from its headers alone."""
