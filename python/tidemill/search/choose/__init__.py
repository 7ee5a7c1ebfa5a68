"""The cheapest of all plans: settling by cost, extraction, sharing."""
