"""The refund agent: a customer paid $100, case 4471 approves one $20 refund, and something goes wrong.

Rows are what goes wrong, columns are who guards the refund, and every cell is one case of its own against the local
service over HTTP: its outcome, the money the service's ledger holds, and the verdict.
"""
