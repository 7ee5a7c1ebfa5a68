"""The choice of the cheapest plan: settling by cost, extraction, sharing."""
