"""What commands share before click is imported: their options, how a plain command line is read, and how a run ends.
The commands themselves are in `cli/`."""
