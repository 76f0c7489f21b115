"""Evaluating many kernels of one reference: workers that build, check and time, and go on when one crashes."""
