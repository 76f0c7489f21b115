"""The options of the verbs, and the values that they take."""
