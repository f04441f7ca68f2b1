"""What `gpudoctor fleet` finds in made-up fleets, what it takes, and how its page looks.

python -m benchmarks.fleet scale [COUNT ...]     time and memory of `fleet report`
python -m benchmarks.fleet fleets [NUMBER]       oddities found in made-up fleets, and who is accused wrongly
python -m benchmarks.fleet courses [NUMBER]      whom simulated pair tests blame
python -m benchmarks.fleet pages FOLDER          pages of 8 and 512 nodes, and pictures of them by chromium
"""
