"""Running a pair: the workload, omn's window around it, the tool inside the window, and the verdict."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from omn_core.testing.fixtures import Command
from omn_core.testing.stepped import Running, WorkloadError, start
from reference.load import load_parser, make_plain_session
from reference.model import Pair, Step, When, fill
from reference.parsing import Figures, ToolLossError, UnreadableError
from reference.refusal import CannotRunError, PairFailedError, check_requirements
from reference.stages import STAGES, Stood
from reference.tools import make_argv, run_tool, watch
from reference.verdict import State, Verdict, judge
from reference.window import TIMEOUT_S, OmnEndedError, Window
from reference.workloads import Wrapped, find_innermost, make_pairs_workload, wait_blocked


def run_pair(pair: Pair, omn: Command, folder: Path) -> Verdict:
    """Run a pair so often as it says and judge the medians. `folder` is its own, for what it makes."""
    try:
        check_requirements(pair)
        both = [_run_once(pair, omn, folder / f"run-{number}") for number in range(pair.runs)]
    except (CannotRunError, ToolLossError) as reason:
        return Verdict(pair, State.SKIP, reason=str(reason))
    except OmnEndedError as error:
        said = error.said.strip().splitlines() or ["it said nothing"]
        state = State.SKIP if error.is_machines else State.FAIL
        return Verdict(pair, state, reason=f"omn ended with {error.code}: {said[0]}")
    except (PairFailedError, WorkloadError) as error:
        return Verdict(pair, State.FAIL, reason=str(error))
    except UnreadableError as error:
        return Verdict(pair, State.FAIL, reason=f"{pair.tool.title} printed what no parser reads: {error}")
    return judge(pair, statistics.median(omn for omn, _ in both), statistics.median(tool for _, tool in both))


def _run_once(pair: Pair, omn: Command, folder: Path) -> tuple[float, float]:
    """Return omn's figure and the tool's, of one run."""
    folder.mkdir(parents=True)
    with _stand(pair, folder) as stood, contextlib.ExitStack() as stack:
        words = {"folder": str(folder), "output": str(folder / "output"), **stood.words}
        found = dict(stood.found)
        running = None
        if pair.workload is not None:
            running = stack.enter_context(_start(pair, pair.workload, words))
            pid = _bring_to_window(pair, pair.workload, running, stood)
            words["pid"] = str(pid)
            found |= {"pid": [pid], "tid": pid}
        with Window(omn, folder, make_plain_session(pair, found, Window.launch(folder), words)) as window:
            texts = _observe(pair, running, words)
            document = window.close()
        if pair.tool.when is When.WRAPPING and running is not None:
            running.finish()
            texts = [Path(words["output"]).read_text()]
    return _read_omn(pair, document, words), _read_tool(pair, texts, words)


@contextlib.contextmanager
def _stand(pair: Pair, folder: Path) -> Iterator[Stood]:
    if pair.stage is None:
        yield Stood()
    else:
        with STAGES[pair.stage.name](folder, **pair.stage.arguments) as stood:
            yield stood


def _start(pair: Pair, step: Step, words: Mapping[str, str]) -> Running:
    made = make_pairs_workload(step, words)
    if pair.tool.when is When.WRAPPING:
        made = Wrapped(made.name, made.source, make_argv(pair.tool, words))
    return start(made, TIMEOUT_S)


def _bring_to_window(pair: Pair, step: Step, running: Running, stood: Stood) -> int:
    """Bring the workload to where the window is to open, and return its own pid."""
    running.wait(step.begin)
    pid = find_innermost(running.pid)
    wait_blocked(pid, TIMEOUT_S)
    stood.admit(pid)
    if pair.tool.when in (When.HELD, When.DURING):
        _pass_on(running, step, pid)
    return pid


def _pass_on(running: Running, step: Step, pid: int) -> None:
    """Let the workload go on from its first step, and if there is a last one, until it sleeps there."""
    if step.until != step.begin:
        running.release()
        if step.until is not None:
            running.wait(step.until)
            wait_blocked(pid, TIMEOUT_S)


def _observe(pair: Pair, running: Running | None, words: Mapping[str, str]) -> list[str]:
    """Run the tool inside the open window, and return what it printed each time."""
    tool, step = pair.tool, pair.workload
    if tool.when in (When.HELD, When.DURING) or running is None or step is None:
        texts = [run_tool(tool, words)]
    elif tool.when is When.AROUND:
        before = run_tool(tool, words)
        _pass_on(running, step, int(words["pid"]))
        texts = [before, run_tool(tool, words)]
    elif tool.when is When.SPANNING:
        with watch(tool, words) as watching:
            _pass_on(running, step, int(words["pid"]))
            watching.stop()
        texts = [Path(words["output"]).read_text()]
    else:
        _pass_on(running, step, int(words["pid"]))
        texts = []
    return texts


def _read_tool(pair: Pair, texts: list[str], words: Mapping[str, str]) -> float:
    """Return the tool's figure, of a counter the growth between its two readings."""
    parser, name = load_parser(pair.tool.parser), fill(pair.tool.figure, words)
    figures = [_get_figure(pair.tool.title, parser(text), name) for text in texts]
    return figures[-1] - figures[0] if pair.tool.when is When.AROUND else figures[0]


def _get_figure(title: str, figures: Figures, name: str) -> float:
    if name not in figures:
        raise PairFailedError(f"{title} has no figure {name!r}; it has {', '.join(sorted(figures)) or 'none'}")
    return figures[name]


def _read_omn(pair: Pair, document: Mapping[str, Any], words: Mapping[str, str]) -> float:
    """Return omn's figure: of the one series of the key, or what a parser makes of the result."""
    (result,) = document["results"]
    read = pair.omn
    if read.parser is not None and read.figure is not None:
        return _get_figure("omn", load_parser(read.parser)(result), fill(read.figure, words))
    key = {name: fill(value, words) if isinstance(value, str) else value for name, value in read.key.items()}
    series = [one for one in result["series"] if key.items() <= one["key"].items()]
    if len(series) != 1:
        raise PairFailedError(f"omn has {len(series)} series of the key {key}, and one is compared")
    answer = series[0]["emits"][pair.asked.emit]
    value = answer.get(read.field)
    if not isinstance(value, int | float):
        raise PairFailedError(f"omn's {pair.asked.emit} has no number {read.field!r}: {answer}")
    if answer["lower_bound"]:
        raise PairFailedError(f"omn's figure is a lower bound: {'; '.join(result['losses']['reasons'])}")
    return float(value)
