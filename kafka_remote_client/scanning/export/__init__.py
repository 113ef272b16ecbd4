"""An export: the records of a scan as files of a table, exactly once.

::

    job (options, splits)  ->  split writer  ->  split records  ->  commit plan  ->  published files, or commits of a table
    written first, once        attempts            what counts        written once     renamed, copied, or named in a snapshot

Whatever is killed, the next run of the same job goes on behind the last thing that was written as a whole.

References: docs/tables.md, "Export".
"""

__all__: list[str] = []
