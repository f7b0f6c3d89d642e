# steps: 20
# series: loss, ppl, lr, gnorm
# Stands for ``python -m translate.train``, which fairseq's loggers print like.
import runpy
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
runpy.run_module("translate.train", run_name="__main__", alter_sys=True)
