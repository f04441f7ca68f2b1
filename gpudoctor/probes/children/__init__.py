"""Programs that probes run in a child: the standard library only, one JSON object a line into file number argv[1]."""
