"""examples/notebook.ipynb: its cells run one after the other, and give what Kafka's own consumer read."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.support.artifacts import ROOT
from tests.support.golden import golden_local
from tests.support.scanned import tiered_rows

_NOTEBOOK = ROOT / "examples" / "notebook.ipynb"
_FIGURES = """
import json
records = [table.num_rows for table in (orders.to_arrow(), late.to_arrow())]
print(json.dumps({"records": records, "count": count, "partitions": partitions.fetchall()}))
"""


def test_notebook_cells_give_the_consumers_records() -> None:
    cells = json.loads(_NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") for cell in cells), "the notebook is kept without outputs"
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    text = "\n".join([*code, _FIGURES])
    text = text.replace("file:///var/kafka-tier", (golden_local() / "remote").as_uri()).replace('"orders"', '"epochs"')
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", text], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    rows = [row for partition in (0, 1) for row in tiered_rows("epochs", partition, "read_committed")]
    late = [row for row in rows if row["offset"] >= 1000]
    by_partition = [[row for row in rows if row["partition"] == partition] for partition in (0, 1)]
    assert 0 < len(late) < len(rows)
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "records": [len(rows), len(late)],
        "count": len(rows),
        "partitions": [[number, len(part), part[-1]["offset"]] for number, part in enumerate(by_partition)],
    }
