"""`gpudoctor fleet pair`: nodes compute together in pairs, so that the one that cannot is found.

`schedule` says who meets whom, `blame` who is to blame; both are pure. `member` is the process of a rank that
has torch, `rank` what each rank does, `coordinator` what rank 0 does beside it.
"""
