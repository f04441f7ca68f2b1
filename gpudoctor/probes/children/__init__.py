"""Programs that probes run in a child: the standard library only, one JSON object a line into the file argv[1]."""
