"""What is never retracted now, the rest when it is due (stream computing; Tempura IM-2)."""
