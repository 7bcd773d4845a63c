"""Everything that measures Interlock: services, suites and the harness that runs them."""
