"""Share of the cores that other programs hold."""

import subprocess
import sys
import time

from models.system.other_programs import OtherPrograms


def test_work_of_this_program_is_not_counted_and_that_of_another_is() -> None:
    others = OtherPrograms()
    assert 0 <= others() <= 1
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            time.sleep(0.2)
            others()
            time.sleep(1.0)
            beside_a_loop = others()
        finally:
            busy.kill()
    assert beside_a_loop > 0.05
    assert beside_a_loop <= 1
