"""Real crashes inside an agent's refund: eight rows, three arms, with a durable engine or without one.

A cell is one support case: a new $100 payment, one approved $20 refund, a model that reads the payment through a tool and decides, and
a worker process that dies by SIGKILL in the middle of the refund. An engine is one file under `engines/`; rows, arms, supervisor and
report are shared.
"""
