"""Kernels written by programs: functions of Python, the builder and its expressions, and kernels joined."""
