"""`python -m benchmarks.cuda`: throughput.py."""

from .throughput import main

raise SystemExit(main())
