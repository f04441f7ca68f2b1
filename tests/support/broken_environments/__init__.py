"""Real environments, each broken in a way of its own, and healthy ones that look odd.

environment.py has a copy of a base that is broken, bases.py the bases, measuring.py what Python and gpudoctor say of
a copy. The catalogue is in the other modules, one for each class of faults, and controls.py.
"""
