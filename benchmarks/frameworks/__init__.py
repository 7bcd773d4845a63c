"""One file a framework: its facts, and what its worker does at each moment. README.md says how to add one."""
