"""An export: the records of a scan as files of a table, exactly once.

::

    job (options, splits)  ->  split writer  ->  split records  ->  commit plan  ->  published files, or commits of a table
    written first, once        attempts            which attempt      written once     renamed, copied, or named in a snapshot

After a crash at any point, the next run of the same job continues after the last record that was written completely.

References: docs/tables.md, "Export".
"""

__all__: list[str] = []
