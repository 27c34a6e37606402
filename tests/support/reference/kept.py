"""Where a run of tests keeps its verdicts until its end."""

from __future__ import annotations

import pytest

from reference.verdict import Verdict

VERDICTS = pytest.StashKey[list[Verdict]]()
