"""Kernels as integer sets: domains, accesses, schedules, flow, and the limit on isl's steps."""
