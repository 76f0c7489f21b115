"""Moves on scopes and guards."""
