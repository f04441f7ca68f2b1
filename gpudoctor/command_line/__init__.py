"""What commands share before a command-line library is imported: their options, how a plain command line is read,
and how a run ends."""
