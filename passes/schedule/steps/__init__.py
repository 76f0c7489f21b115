"""The parts of schedules: combinators, moves on nodes that are followed, versions, simplifications."""
