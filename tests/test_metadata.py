"""The metadata document keeps its keys, and only such documents are read."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from acpremote.errors import RemoteProtocolError
from acpremote.metadata import ServerMetadata, parse_metadata

METADATA = ServerMetadata(
    package_version="1",
    auth_required=True,
    supported_auth_modes=("bearer",),
    max_size=1000,
    metadata_path="/acp",
    websocket_path="/acp/ws",
    remote_cwd="/hömé",
)


def test_the_keys_that_stock_clients_read_are_all_there() -> None:
    document = json.loads(METADATA.to_json())
    assert (
        document.items()
        >= {
            "transport_kind": "websocket",
            "transport_version": 1,
            "package_version": "1",
            "auth_required": True,
            "supported_auth_modes": ["bearer"],
            "max_size": 1000,
            "max_queue": 16,
            "compression": None,
            "health_path": "/healthz",
            "metadata_path": "/acp",
            "websocket_path": "/acp/ws",
            "supported_agent_families": [],
            "remote_cwd": "/hömé",
        }.items()
    )


def test_what_is_written_is_read_back() -> None:
    assert parse_metadata(METADATA.to_json()) == METADATA


def test_unknown_keys_are_ignored_and_optional_ones_may_lack() -> None:
    document = {
        "package_version": "2",
        "auth_required": False,
        "max_size": 5,
        "metadata_path": "/",
        "new": {},
    }
    read = parse_metadata(json.dumps(document | {"websocket_path": "/ws"}).encode())
    assert read == ServerMetadata(
        package_version="2", auth_required=False, max_size=5, metadata_path="/", websocket_path="/ws"
    )


def test_a_path_that_is_no_utf8_is_spelled_somehow() -> None:
    assert parse_metadata(replace(METADATA, remote_cwd="/\udcff").to_json()).remote_cwd == "/?"


@pytest.mark.parametrize(
    "change",
    [
        {"max_size": "1"},
        {"remote_cwd": 1},
        {"supported_auth_modes": "bearer"},
        {"subprotocols": [1]},
        {"auth_required": None},
    ],
)
def test_odd_values_are_named(change: dict[str, object]) -> None:
    document = json.loads(METADATA.to_json()) | change
    with pytest.raises(RemoteProtocolError, match=next(iter(change))):
        parse_metadata(json.dumps(document).encode())


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b"\xff", b"[" * 100_000])
def test_anything_else_is_refused(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="metadata"):
        parse_metadata(body)
