"""Time-varying relations: their forms at times and over intervals, and the links between them."""
