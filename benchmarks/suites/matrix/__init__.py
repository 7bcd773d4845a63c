"""The same crash suite in every framework: seven rows, three arms, each framework in its own documented durable set-up.

A framework is one file under `benchmarks/frameworks/`. Rows, kill points, people, supervisor, truth and report are shared and here.
"""
