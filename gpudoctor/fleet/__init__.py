"""Many nodes: documents of single nodes, merged into one report that names the odd ones.

documents (one per node) → nodes (judged, with the facts that are compared) → norms → FleetReport
"""
