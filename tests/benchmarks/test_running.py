"""What benchmarks measure of the processes beside them."""

import subprocess
import sys
from contextlib import closing

from tests.benchmarks.running import SessionCpu

_PARENT = """
import signal, subprocess, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel adds the child's time to nobody's
work = "import time\\nwhile time.process_time() < 0.5: pass\\nprint('worked', flush=True); input()"
child = subprocess.Popen([sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
print("worked", flush=True)
input()
child.communicate(b"\\n")
print("ended", flush=True)
input()
"""


def test_cpu_time_of_an_unwaited_process_counts() -> None:
    command = [sys.executable, "-c", _PARENT]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        with closing(SessionCpu(parent.pid)) as cpu:
            assert parent.stdout.readline() == "worked\n"
            before = cpu.seconds()
            assert before >= 0.4
            parent.stdin.write("\n")
            parent.stdin.flush()
            assert parent.stdout.readline() == "ended\n"
            assert cpu.seconds() >= before
        parent.stdin.write("\n")
        parent.stdin.close()
    assert parent.returncode == 0
