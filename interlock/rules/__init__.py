"""The pure rules: tables and folds. No clock, no disk, no network; every cell of every table is tested."""
