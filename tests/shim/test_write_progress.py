"""All bytes that wait at one moment have one deadline."""

from __future__ import annotations

from kafka_remote_client.shim.write_progress import WriteProgress


def test_no_deadline_while_all_bytes_are_taken() -> None:
    progress = WriteProgress()
    progress.wrote(100)
    progress.look(0, 1.0)
    assert progress.waited(50.0) == 0.0


def test_single_bytes_do_not_extend_the_deadline() -> None:
    progress = WriteProgress()
    progress.wrote(100)
    progress.look(100, 1.0)
    for second in range(2, 60):
        progress.wrote(1)
        progress.look(100, float(second))  # one taken, one more written
    assert progress.waited(60.0) == 59.0


def test_the_deadline_restarts_when_all_waiting_bytes_are_read() -> None:
    progress = WriteProgress()
    progress.wrote(100)
    progress.look(100, 1.0)
    progress.wrote(50)
    progress.look(51, 5.0)
    assert progress.waited(5.0) == 4.0
    progress.look(50, 7.0)
    assert progress.waited(7.5) == 0.5
    progress.look(0, 8.0)
    assert progress.waited(9.0) == 0.0
