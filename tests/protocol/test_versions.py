from ferrule._protocol import versions


def test_the_newest_common_revision_is_by_our_order_not_by_the_peers() -> None:
    assert versions.newest_common(["2024-11-05", "2025-06-18"], versions.HANDSHAKE) == "2025-06-18"


def test_revisions_nobody_knows_are_passed_over() -> None:
    assert versions.newest_common(["2099-01-01", "2026-07-28"], versions.STATELESS) == "2026-07-28"
    assert versions.newest_common(["2099-01-01"], versions.KNOWN) is None


def test_only_2025_03_26_has_batches() -> None:
    assert [revision for revision in versions.KNOWN if versions.has_batches(revision)] == ["2025-03-26"]
