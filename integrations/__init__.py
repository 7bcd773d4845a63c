"""One folder per framework, installed as ``interlock.integrations``. Empty until the first adapter lands.

An adapter may import the public names of ``interlock``, ``interlock.extend`` and its own framework, and nothing private.
"""
