"""What every move is made of."""
