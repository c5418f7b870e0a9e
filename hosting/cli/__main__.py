"""`python -m hosting.cli` is `reliable-rx`."""

import sys

from hosting.cli.command import main

sys.exit(main())
