"""The optimiser's work, for developers: blocks of the rule tests, and requests of users, without Spark."""
