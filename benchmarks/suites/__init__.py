"""The suites, by name. Each is a module with `PURPOSE` and `run(job) -> Results`."""
