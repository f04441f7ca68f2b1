"""How often gpudoctor is right: cases with a known cause are put to it and to other tools, and counted."""
