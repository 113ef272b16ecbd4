from __future__ import annotations

from kafka_remote_client.spark.option_table import OPTIONS


def test_every_option_has_a_line_and_every_name_is_distinct() -> None:
    assert len({option.name.lower() for option in OPTIONS}) == len(OPTIONS)
    assert all(option.doc.endswith(".") for option in OPTIONS)


def test_options_of_our_own_are_told_from_those_of_spark() -> None:
    ours = {option.name for option in OPTIONS if option.is_ours}
    assert {"remote.splitBytes", "maxBytesPerTrigger"} <= ours
    assert not {"subscribe", "maxOffsetsPerTrigger", "includeHeaders"} & ours
