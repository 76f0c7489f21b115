"""The threads of a block: what is theirs, what they share, and what lies side by side."""
