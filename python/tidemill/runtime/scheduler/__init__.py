"""The scheduler: fires the points of schedules. What is due is a pure function; `ticks` carries it out."""
