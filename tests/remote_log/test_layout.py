from __future__ import annotations

from uuid import UUID

from kafka_remote_client.model import RemoteLogSegmentId
from kafka_remote_client.remote_log.layout import REQUIRED, ListedSegment, ObjectKind
from tests.support.tier import TIP


def listed(*kinds):
    return ListedSegment(RemoteLogSegmentId(TIP, UUID(int=1)), 0, dict.fromkeys(kinds, 10))


def test_everything_but_the_transaction_index_is_required():
    assert ObjectKind.TRANSACTION_INDEX not in REQUIRED
    assert len(REQUIRED) == len(ObjectKind) - 1
    assert listed(*REQUIRED).missing == frozenset()


def test_a_segment_names_what_it_lacks():
    assert listed(ObjectKind.LOG, ObjectKind.OFFSET_INDEX).missing == REQUIRED - {ObjectKind.LOG, ObjectKind.OFFSET_INDEX}
    assert listed().topic_id_partition == TIP
