"""Small exact facts about indices and coverage, found without isl."""
