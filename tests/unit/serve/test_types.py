import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts" / "page_types.py"


@pytest.fixture
def script():
    import importlib.util

    spec = importlib.util.spec_from_file_location("page_types", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_types_of_the_page_are_current():
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_stale_file_is_noticed(script, tmp_path, capsys):
    script.TARGET = tmp_path / "api.ts"
    assert script.main(["--check"]) == 1
    assert "python scripts/page_types.py" in capsys.readouterr().err
    assert script.main([]) == 0
    assert script.main(["--check"]) == 0
    script.TARGET.write_text(script.TARGET.read_text() + "\n")
    assert script.main(["--check"]) == 1


def test_what_may_be_left_out_is_optional_and_what_may_be_missing_null(script):
    text = script.module_text()
    assert "  x0?: number | null;" in text
    assert "  split: Split | null;" in text
    assert "  value: number | NonFinite;" in text
    assert "export const MAX_BUCKETS = 2000;" in text
    assert "  dirty: Record<string, string[]>;" in text
