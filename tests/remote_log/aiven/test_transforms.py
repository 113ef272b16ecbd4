from __future__ import annotations

import sys

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_remote_client.errors import CorruptChunkError, DataKeyError, MissingExtraError
from kafka_remote_client.remote_log.aiven.chunk_index import ChunkEncoding
from kafka_remote_client.remote_log.aiven.transforms import ChunkCipher, ChunkTransform
from tests.support.aiven import AAD, DATA_KEY, encrypt, stored_chunks

DATA = b"what Kafka wrote " * 20
ENCODINGS = [ChunkEncoding(compressed, encrypted) for compressed in (False, True) for encrypted in (False, True)]


def transform(encoding: ChunkEncoding, **changes) -> ChunkTransform:
    return ChunkTransform(encoding, ChunkCipher(**{"data_key": DATA_KEY, "aad": AAD, **changes}))


def stored(data: bytes, encoding: ChunkEncoding) -> bytes:
    (chunk,) = stored_chunks(data, len(data) or 1, compressed=encoding.compressed, encrypted=encoding.encrypted)
    return chunk


def restored(encoding: ChunkEncoding, chunk: bytes, size: int, **changes) -> bytes:
    target = bytearray(b"\xee" * size)
    transform(encoding, **changes).restore(chunk, memoryview(target))
    return bytes(target)


@pytest.mark.parametrize("encoding", ENCODINGS, ids=str)
@pytest.mark.parametrize("data", [DATA, b"x", b"", bytes(1_000_000)], ids=len)
def test_stored_chunks_are_restored(encoding, data):
    assert restored(encoding, stored(data, encoding), len(data)) == data


@pytest.mark.parametrize("encoding", ENCODINGS, ids=str)
@pytest.mark.parametrize("difference", [-1, 1])
def test_a_chunk_of_another_size_is_refused(encoding, difference):
    with pytest.raises(CorruptChunkError):
        restored(encoding, stored(DATA, encoding), len(DATA) + difference)


@pytest.mark.parametrize("at", [0, 11, 12, 40, -17, -16, -1])
@pytest.mark.fault("S20")
def test_a_flipped_bit_of_an_encrypted_chunk_is_refused_before_any_use(at):
    chunk = bytearray(stored(DATA, ChunkEncoding(encrypted=True)))
    chunk[at] ^= 1
    target = bytearray(len(DATA))
    with pytest.raises(CorruptChunkError, match="fails authentication"):
        transform(ChunkEncoding(encrypted=True)).restore(chunk, memoryview(target))
    assert target == bytes(len(DATA))


@pytest.mark.parametrize("change", [{"data_key": bytes(32)}, {"aad": b""}])
def test_another_key_or_other_additional_data_is_refused(change):
    with pytest.raises(CorruptChunkError, match="fails authentication"):
        restored(ChunkEncoding(True, True), stored(DATA, ChunkEncoding(True, True)), len(DATA), **change)


@pytest.mark.parametrize("size", [0, 12, 27])
def test_too_few_bytes_are_not_an_encrypted_chunk(size):
    with pytest.raises(CorruptChunkError, match=f"{size} bytes"):
        restored(ChunkEncoding(encrypted=True), bytes(size), 0)


def test_a_decompression_bomb_is_refused_at_the_size_of_the_table():
    bomb = bytes(cramjam.zstd.compress(bytes(50_000_000)))
    with pytest.raises(CorruptChunkError):
        restored(ChunkEncoding(compressed=True), bomb, 1000)
    with pytest.raises(CorruptChunkError):
        restored(ChunkEncoding(True, True), encrypt(bomb), 1000)


@pytest.mark.parametrize("chunk", [b"", b"\x28\xb5\x2f\xfd", DATA, b"\x28\xb5\x2f\xfd\x20\x05\x29\0\0"])
def test_bytes_other_than_a_frame_are_refused(chunk):
    with pytest.raises(CorruptChunkError):
        restored(ChunkEncoding(compressed=True), chunk, 5)


@settings(deadline=None)
@given(st.binary(max_size=60), st.integers(0, 40), st.sampled_from(ENCODINGS))
def test_any_bytes_are_restored_or_refused(data, size, encoding):
    try:
        restored(encoding, data, size)
    except CorruptChunkError:
        return


def test_a_key_of_another_size_is_refused():
    with pytest.raises(DataKeyError, match="31 bytes"):
        ChunkCipher(bytes(31), AAD)


def test_an_encrypted_chunk_needs_a_cipher():
    with pytest.raises(DataKeyError):
        ChunkTransform(ChunkEncoding(encrypted=True), None)


def test_no_repr_shows_the_key():
    cipher = ChunkCipher(DATA_KEY, AAD)
    assert repr(cipher) == "ChunkCipher()"
    assert str(DATA_KEY) not in repr(ChunkTransform(ChunkEncoding(encrypted=True), cipher))


def test_a_missing_package_is_an_error_with_the_pip_command(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("cryptography")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(MissingExtraError, match=r"cryptography.*: pip install 'kafka-remote-client\[aiven\]'"):
        ChunkCipher(DATA_KEY, AAD)
    assert restored_without_encryption() == DATA


def restored_without_encryption() -> bytes:
    target = bytearray(len(DATA))
    ChunkTransform(ChunkEncoding(compressed=True), None).restore(
        stored(DATA, ChunkEncoding(compressed=True)), memoryview(target)
    )
    return bytes(target)
