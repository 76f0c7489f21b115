"""Barriers and fences: where threads may meet, where they wait, and the proof that it is enough."""
