"""Process groups: joining, leaving, subgroups, work under way, the flight recorder."""
