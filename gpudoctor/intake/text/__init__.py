"""What people paste into bug reports, read as one more source of a Machine.

lines → a parser for each kind of text → facts, each with its line → one value for each (`ranking`) → a Machine, in
which what nobody said is assumed healthy and shown.
"""
