"""Time-varying relations: their forms at moments and over intervals, and the links between them."""
