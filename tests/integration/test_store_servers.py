"""SeaweedFS, as tests use it, leaves nothing outside of its directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.artifacts import MissingPartError
from tests.support.seaweedfs_server import SOCKETS, SeaweedServer, server_binary


@pytest.mark.stores
def test_a_stopped_server_leaves_no_socket(tmp_path: Path) -> None:
    try:
        server_binary()
    except MissingPartError as missing:
        pytest.skip(str(missing))
    with SeaweedServer(tmp_path) as server:
        port = int(server.authority.rpartition(":")[2])
        of_all_ports = [found for own in server.ports for found in SOCKETS.glob(f"seaweedfs-*-{own}.sock")]
        assert SOCKETS / f"seaweedfs-s3-{port}.sock" in of_all_ports
    assert [left for left in of_all_ports if left.exists()] == []
