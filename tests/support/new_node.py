"""A formatted node's folder, and tiers in memory that are restored to it.

FORMATTED and META are what ``StorageTool format`` of Kafka 4.3.1 wrote.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kafka_remote_client.remote_log.tier_listing import TierListing
from kafka_remote_client.restore.bootstrap_checkpoint import BOOTSTRAP
from kafka_remote_client.restore.partition_tier import read_partition
from kafka_remote_client.restore.restore_plan import RestorePlan, RestoreRequest, plan_restore
from kafka_remote_client.restore.restorer import Restored, Restorer
from tests.support.tier import LAYOUT, TIP, Tier, batch

__all__ = ["CONFIGS", "DIRECTORY", "FORMATTED", "META", "NAME", "WORK", "formatted", "planned", "restored", "two_segments"]

CONFIGS = {TIP.topic: {"retention.ms": "-1"}}
NAME = f"{TIP.topic}-{TIP.partition}"
WORK = "kafka-remote-restore"
DIRECTORY = "Q8ax_om2CWqWtkv8dtv2-w"
META = f"#\n#Wed Nov 25 15:54:10 UTC 2026\nnode.id=1\ndirectory.id={DIRECTORY}\nversion=1\ncluster.id=dGVzdC1jbHVzdGVyLTAwMQ\n"
FORMATTED = bytes.fromhex(
    "00000000000000000000004700000000020a0ca345002000000000000001a2136a1338000001a2136a1338ffffffffffffffffffffffffff"
    "ff000000012a0000000800000003160000000000000000000000000000000000000001000000f10000000002b194bc840000000000050000"
    "01a2136a181c000001a2136a181cffffffffffffffffffffffffffff000000063a000000012e010c00116d657461646174612e7665727369"
    "6f6e001e00005a000002014e010c0021656c696769626c652e6c65616465722e7265706c696361732e76657273696f6e0001000034000004"
    "0128010c000e67726f75702e76657273696f6e00010000340000060128010c000e73686172652e76657273696f6e0001000038000008012c"
    "010c001073747265616d732e76657273696f6e000100004000000a0134010c00147472616e73616374696f6e2e76657273696f6e00020000"
    "00000000000000070000003f0000000002770aa482002000000000000001a2136a1823000001a2136a1823ffffffffffffffffffffffffff"
    "ff000000011a00000008000000040600000000"
)


def formatted(place: Path, node: int = 1) -> Path:
    """Formats a folder."""
    place.mkdir(exist_ok=True)
    (place / "meta.properties").write_text(META.replace("node.id=1", f"node.id={node}"))
    (place / BOOTSTRAP).write_bytes(FORMATTED)
    return place


def two_segments(**changes: Any) -> Tier:
    """A tier of offsets 0 to 10 in the epochs 0 and 2."""
    tier = Tier()
    tier.add([batch(0, 3), batch(3, 2)], number=1)
    tier.add([batch(5, 5, epoch=2, producer_id=40), batch(10, epoch=2)], number=2, epochs=[(2, 5)], **changes)
    return tier


def planned(tier: Tier, *, live: bool = False, configs: dict[str, Any] = CONFIGS, **more: Any) -> RestorePlan:
    """The plan for a tier."""
    listing = TierListing(tier.store, LAYOUT)
    found = read_partition(tier.store, LAYOUT, listing, TIP, **more)
    return plan_restore([found], RestoreRequest(configs, live_copies=live), 0)


def restored(tier: Tier, folder: Path, plan: RestorePlan | None = None, *others: Path, **more: Any) -> Restored:
    """Restores a tier to a folder, or to several."""
    return Restorer(tier.store, LAYOUT, plan or planned(tier), CONFIGS, **more).run(folder, *others)
