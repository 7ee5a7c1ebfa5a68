"""The planner's interface: requests and plans."""
