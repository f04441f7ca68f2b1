"""`gpudoctor fleet pair`: nodes compute together in pairs, so that the one that cannot is found.

`schedule` says who meets whom, `conviction` who is to blame; both are pure. `member` is the process of a rank that
has torch, `rank` what each rank does, `lead` what rank 0 does beside it.
"""
