import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.fetch.cache_entry import BLOCK_BYTES, CacheEntryHeader, DamagedEntryError
from kafka_remote_client.fetch.disk_cache import DiskCache
from kafka_remote_client.model import ByteRange

MIB = 1024 * 1024
ONE, OTHER = bytes([1] * 32), bytes([2] * 32)
DATA = bytes(range(256)) * 4096


def keep(cache: DiskCache, wanted: ByteRange, identity: bytes = ONE) -> None:
    claim = cache.claim(identity, wanted)
    assert claim is not None
    claim.write(memoryview(DATA)[wanted.start : wanted.end])
    claim.finish()


def kept(cache: DiskCache, wanted: ByteRange, identity: bytes = ONE) -> bytes | None:
    entries = cache.open(identity, wanted)
    if entries is None:
        return None
    out = b""
    for entry in entries:
        whole = entry.header.range
        blocks = []
        for number in range(len(entry.header.checksums)):
            block = bytearray(min(BLOCK_BYTES, whole.size - number * BLOCK_BYTES))
            entry.read_block(number, memoryview(block))
            blocks.append(bytes(block))
        out += b"".join(blocks)[entry.wanted.start - whole.start : entry.wanted.end - whole.start]
        entry.close()
    return out


def entry_files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*/*"))


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "cache", 64 * MIB)


def test_bytes_of_abandoned_entries_are_not_counted(cache: DiskCache) -> None:
    keep(cache, ByteRange(0, 1000))
    before = cache.statistics().nbytes
    assert before > 1000
    for start in range(1000, 5000, 1000):
        claim = cache.claim(ONE, ByteRange(start, start + 1000))
        assert claim is not None
        claim.abandon()
    assert cache.statistics().nbytes == before


@pytest.mark.parametrize("wanted", [ByteRange(0, 10), ByteRange(5, 5 + BLOCK_BYTES), ByteRange(7, 3 * BLOCK_BYTES)], ids=str)
def test_a_written_range_and_its_parts_are_found(cache: DiskCache, wanted: ByteRange) -> None:
    assert cache.open(ONE, wanted) is None
    keep(cache, wanted)
    part = ByteRange(wanted.start + 1, wanted.end - 1)
    for asked in (wanted, part):
        assert kept(cache, asked) == DATA[asked.start : asked.end]
    assert cache.open(OTHER, wanted) is None
    assert cache.open(ONE, ByteRange(wanted.start, wanted.end + 1)) is None


def test_several_entries_make_one_range(cache: DiskCache) -> None:
    keep(cache, ByteRange(0, 400_000))
    keep(cache, ByteRange(300_000, 700_000))
    assert kept(cache, ByteRange(100_000, 650_000)) == DATA[100_000:650_000]


def test_only_the_owner_can_read_the_files(cache: DiskCache, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        keep(cache, ByteRange(0, 10))
    finally:
        os.umask(before)
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700
    (entry,) = entry_files(tmp_path / "cache")
    assert entry.stat().st_mode & 0o777 == 0o600
    assert entry.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o722])
def test_a_directory_writable_by_others_is_refused(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(ConfigurationError, match="other users"):
        DiskCache(tmp_path, MIB)


def test_a_directory_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(ConfigurationError, match="another user"):
        DiskCache(tmp_path, MIB)


def test_a_path_that_is_not_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"^fetch\.remote\.cache\.directory is not a directory$"):
        DiskCache(tmp_path / "file", MIB)


def test_only_one_writer_claims_an_entry(cache: DiskCache, tmp_path: Path) -> None:
    wanted = ByteRange(0, 10)
    claim = cache.claim(ONE, wanted)
    assert claim is not None
    another_process = DiskCache(tmp_path / "cache", 64 * MIB)
    assert cache.claim(ONE, wanted) is None
    assert another_process.claim(ONE, wanted) is None
    assert cache.open(ONE, wanted) is None
    other_range = cache.claim(ONE, ByteRange(0, 11))
    assert other_range is not None
    other_range.abandon()
    claim.abandon()
    keep(another_process, wanted)
    assert cache.claim(ONE, wanted) is None, "it is there: look again"
    assert kept(cache, wanted) == DATA[:10]
    assert [file.suffix for file in entry_files(tmp_path / "cache")] == [".chunk"]


def test_the_claim_of_a_dead_process_is_free(cache: DiskCache, tmp_path: Path) -> None:
    program = f"""
import os, pathlib
from kafka_remote_client.fetch.disk_cache import DiskCache
from kafka_remote_client.model import ByteRange
claim = DiskCache(pathlib.Path({str(tmp_path / "cache")!r}), {64 * MIB}).claim(bytes([1] * 32), ByteRange(0, 10))
claim.write(memoryview(b"half"))
os._exit(9)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 9
    assert [file.suffix for file in entry_files(tmp_path / "cache")] == [".tmp"]
    assert cache.open(ONE, ByteRange(0, 10)) is None
    keep(cache, ByteRange(0, 10))
    assert kept(cache, ByteRange(0, 10)) == DATA[:10]


def test_a_temporary_file_renamed_meanwhile_is_not_a_claim(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ByteRange(0, 10)
    locked: list[int] = []
    import fcntl

    real = fcntl.flock

    def flock(descriptor: int, operation: int) -> None:
        if not locked:
            locked.append(descriptor)
            keep(cache, wanted)  # all of it between our opening the file and our locking it
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    assert cache.claim(ONE, wanted) is None
    assert kept(cache, wanted) == DATA[:10]


def test_a_damaged_header_is_found_at_once_and_its_entry_removed(cache: DiskCache, tmp_path: Path) -> None:
    wanted = ByteRange(0, 1000)
    for damage in (lambda data: data[:20], lambda data: b"x" + data[1:], lambda data: data + b"x", lambda data: b""):
        keep(cache, wanted)
        (entry,) = entry_files(tmp_path / "cache")
        entry.write_bytes(damage(entry.read_bytes()))
        assert cache.open(ONE, wanted) is None
        assert not entry.exists()
    assert cache.statistics().damaged == 4


def test_damage_in_the_second_of_two_entries_gives_neither(cache: DiskCache, tmp_path: Path) -> None:
    keep(cache, ByteRange(0, 10))
    keep(cache, ByteRange(10, 20))
    (tmp_path / "cache" / ONE.hex() / "10-20.chunk").write_bytes(b"")
    assert cache.open(ONE, ByteRange(5, 15)) is None
    assert kept(cache, ByteRange(0, 10)) == DATA[:10]


def test_damage_in_a_block_is_found_when_it_is_read(cache: DiskCache, tmp_path: Path) -> None:
    wanted = ByteRange(0, 2 * BLOCK_BYTES)
    keep(cache, wanted)
    (path,) = entry_files(tmp_path / "cache")
    raw = bytearray(path.read_bytes())
    raw[CacheEntryHeader.size_for(wanted.size) + BLOCK_BYTES + 3] ^= 1
    path.write_bytes(raw)
    (entry,) = cache.open(ONE, wanted) or []
    block = memoryview(bytearray(BLOCK_BYTES))
    entry.read_block(0, block)
    with pytest.raises(DamagedEntryError):
        entry.read_block(1, block)
    os.truncate(path, CacheEntryHeader.size_for(wanted.size) + 5)
    with pytest.raises(DamagedEntryError):
        entry.read_block(0, block)
    entry.close()


def test_discarding_a_range_removes_its_entries_only(cache: DiskCache) -> None:
    for wanted in (ByteRange(0, 10), ByteRange(10, 20), ByteRange(20, 30)):
        keep(cache, wanted)
    cache.discard(ONE, ByteRange(15, 20))
    assert [kept(cache, ByteRange(at, at + 10)) for at in (0, 10, 20)] == [DATA[:10], None, DATA[20:30]]
    cache.discard(OTHER, ByteRange(0, 10))


def size_on_disk(directory: Path) -> int:
    return sum(file.stat().st_size for file in entry_files(directory))


def test_processes_share_the_bound_and_keep_the_last_used_entries(tmp_path: Path) -> None:
    processes = [DiskCache(tmp_path, MIB) for _ in range(4)]
    ranges = [ByteRange(at, at + 60_000) for at in range(0, 960_000, 60_000)]
    for number, wanted in enumerate(ranges):
        keep(processes[number % 4], wanted)
        os.utime(tmp_path / ONE.hex() / f"{wanted.start}-{wanted.end}.chunk", (number, number))
        assert kept(processes[0], ranges[0]) == DATA[:60_000], "the first one is used all the time"
        assert size_on_disk(tmp_path) <= MIB
    assert kept(processes[1], ranges[1]) is None
    assert kept(processes[1], ranges[-1]) is not None
    told = sum((process.statistics() for process in processes), processes[0].statistics().__class__())
    assert told.evictions == len(ranges) - len(entry_files(tmp_path))


def test_an_unfinished_file_is_evicted_only_without_a_writer(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, MIB)
    writing = cache.claim(ONE, ByteRange(0, 800_000))
    assert writing is not None
    writing.write(memoryview(DATA)[:800_000])
    unfinished = tmp_path / ONE.hex() / "0-800000.tmp"
    left_behind = tmp_path / ONE.hex() / "1-2.tmp"
    left_behind.write_bytes(b"x")
    os.utime(unfinished, (1, 1))
    os.utime(left_behind, (2, 2))
    (tmp_path / ONE.hex() / "not-ours").touch()
    keep(cache, ByteRange(0, 200_000), OTHER)
    assert unfinished.exists()
    assert not left_behind.exists()
    writing.finish()
    assert kept(cache, ByteRange(0, 800_000)) == DATA[:800_000]


def test_the_directory_of_an_object_is_removed_with_its_last_entry(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, MIB)
    keep(cache, ByteRange(0, 800_000))
    keep(cache, ByteRange(0, 800_000), OTHER)
    assert not (tmp_path / ONE.hex()).exists()
    assert cache.statistics().nbytes >= 800_000


def test_a_range_as_large_as_the_bound_is_not_stored(cache: DiskCache) -> None:
    assert cache.fits(32 * MIB)
    assert not cache.fits(64 * MIB)


def test_counts_hits_misses_and_bytes(cache: DiskCache, tmp_path: Path) -> None:
    cache.count(hit=True)
    cache.count(hit=True)
    cache.count(hit=False)
    keep(cache, ByteRange(0, 800_000))
    keep(cache, ByteRange(0, 400_000), OTHER)
    told = cache.statistics()
    assert (told.hits, told.misses) == (2, 1)
    assert told.nbytes == sum(path.stat().st_size for path in entry_files(tmp_path / "cache"))


def test_a_disk_error_is_raised_and_leaves_no_claim(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, "ftruncate", full)
        with pytest.raises(OSError, match="No space"):
            cache.claim(ONE, ByteRange(0, 10))
    keep(cache, ByteRange(0, 10))
    with monkeypatch.context() as broken:
        broken.setattr(os, "utime", full)
        with pytest.raises(OSError, match="No space"):
            cache.open(ONE, ByteRange(0, 10))
    assert kept(cache, ByteRange(0, 10)) == DATA[:10]


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_a_disk_error_in_one_of_several_entries_leaves_no_file_open(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(cache, ByteRange(0, 1000))
    keep(cache, ByteRange(1000, 2000))
    before, used, times = open_files(), os.utime, list[int]()

    def once(descriptor: int) -> None:
        times.append(descriptor)
        if len(times) == 2:
            raise OSError(5, "Input/output error")
        used(descriptor)

    monkeypatch.setattr(os, "utime", once)
    with pytest.raises(OSError, match="Input/output error"):
        cache.open(ONE, ByteRange(0, 2000))
    assert len(times) == 2
    assert open_files() == before


def test_an_entry_that_cannot_be_deleted_is_free_for_the_next_writer(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    before, wanted = open_files(), ByteRange(0, 1000)
    claim = cache.claim(ONE, wanted)
    assert claim is not None
    with monkeypatch.context() as broken:
        broken.setattr(Path, "unlink", read_only)
        with pytest.raises(OSError, match="Read-only"):
            claim.abandon()
    assert open_files() == before
    keep(cache, wanted)
    assert kept(cache, wanted) == DATA[:1000]


def read_only(*_: object) -> None:
    raise OSError(30, "Read-only file system")


def test_an_entry_that_cannot_be_completed_is_deleted(
    cache: DiskCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = open_files()
    with monkeypatch.context() as broken:
        broken.setattr(Path, "rename", read_only)
        with pytest.raises(OSError, match="Read-only"):
            keep(cache, ByteRange(0, 1000))
    assert open_files() == before
    assert not entry_files(tmp_path / "cache")
    assert cache.statistics().nbytes == 0


def test_a_range_fits_in_seven_eighths_of_the_limit(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 8 * MIB)
    largest = 7 * MIB - CacheEntryHeader.size_for(7 * MIB)
    assert cache.fits(largest)
    assert not cache.fits(largest + 1), "other processes may add to the last eighth before they count again"
