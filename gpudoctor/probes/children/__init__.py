"""Programs that probes run in a child: standard library only, one JSON object per line into file number argv[1]."""
