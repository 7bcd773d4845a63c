"""`python -m interlock.cli`."""

from __future__ import annotations

import sys

from interlock.cli import main

sys.exit(main())
