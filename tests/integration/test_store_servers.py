"""SeaweedFS, as tests use it, leaves nothing outside of its directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.artifacts import MissingPartError
from tests.support.seaweedfs_server import SeaweedServer, server_binary


@pytest.mark.stores
def test_a_stopped_server_leaves_no_socket(tmp_path: Path) -> None:
    try:
        server_binary()
    except MissingPartError as missing:
        pytest.skip(str(missing))
    with SeaweedServer(tmp_path) as server:
        made = server.sockets()
        assert f"seaweedfs-s3-{server.authority.rpartition(':')[2]}.sock" in {one.name for one in made}
    assert [left for left in made if left.exists()] == []
