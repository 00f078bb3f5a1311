"""Short probes of both arms: what is compared, when it is settled, what the profile says."""
