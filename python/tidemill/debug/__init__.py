"""What the optimiser did, for developers: blocks of the rule tests, and requests of users, without Spark."""
