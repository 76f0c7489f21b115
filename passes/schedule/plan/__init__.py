"""The planner: several schedules of a nest, the one that the model says is fastest."""
