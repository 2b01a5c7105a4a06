from __future__ import annotations

import subprocess
import sys


def test_the_command_line_does_not_pay_for_kazoo() -> None:
    program = "import sys, ottla.cli.main, ottla.registry; sys.exit('kazoo' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
