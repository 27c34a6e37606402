"""The flame graph's page: what it carries, and what a browser shows of it."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from browser import CHROMIUM, Page, open_browser
from omn_export.as_html import HTML, render_embedded
from shapes import make_document
from stack_runs import NASTY_LABELS, make_nasty_stacks, make_row, make_stack_result, make_tree

from omn_core.errors import RequestError
from omn_core.model.result import Document
from omn_core.model.style import TextStyle
from omn_core.names import escape_bytes

pytestmark = pytest.mark.spec("FMT-1", "FMT-2")


def write(document: Document) -> str:
    """Return the page."""
    stream = io.BytesIO()
    HTML.write(document, stream, TextStyle())
    return stream.getvalue().decode()


class Scripts(HTMLParser):
    """The elements of a page, and the text of each script."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        """Note a script's text."""
        if self.elements and self.elements[-1][0] == "script":
            self.scripts[-1] += data


def parse(text: str) -> Scripts:
    """Return a parsed page."""
    parser = Scripts()
    parser.feed(text)
    parser.close()
    return parser


def test_the_page_carries_every_stack() -> None:
    """The data stands whole in an element that nothing in it can end: every path, name and weight comes back."""
    document = make_nasty_stacks()
    page = parse(write(document))
    assert len(page.scripts) == 2
    data = json.loads(page.scripts[0])

    def read_path(end: int) -> tuple[str, ...]:
        labels = []
        while end >= 0:
            labels.append(data["frames"][data["at"][end]][0])
            end = data["parents"][end]
        return tuple(labels)

    (series,) = data["series"]
    found = [(read_path(end), weight, count) for end, weight, count in series["stacks"]]
    rows = document.results[0].series[0].emits["stack"]["rows"]
    assert found == [(tuple(map(escape_bytes, row["frames"])), row["weight"], row["count"]) for row in rows]
    assert "named_by" not in data["frames"][0]


def test_the_page_loads_nothing() -> None:
    """No element names a file or an address, and the page's own policy forbids every load."""
    page = parse(write(make_tree()))
    assert not [attributes for _, attributes in page.elements if {"src", "href", "srcset", "action"} & set(attributes)]
    (policy,) = [attributes["content"] for tag, attributes in page.elements if "http-equiv" in attributes]
    assert policy is not None
    assert policy.startswith("default-src 'none';")


def test_what_is_embedded_ends_no_element() -> None:
    """Any text reads back as JSON, and no `<` is left in it."""
    text = render_embedded([*NASTY_LABELS[:2], "</script><!--<script>"])
    assert "<" not in text
    assert json.loads(text)[-1] == "</script><!--<script>"


def test_a_page_holds_no_listing() -> None:
    """A listing is refused as the row says."""
    with pytest.raises(RequestError, match="holds runs alone"):
        HTML.write_plain({}, io.BytesIO(), TextStyle())


class FlameGraph:
    """A page in a browser, read as its reader sees it."""

    def __init__(self, page: Page, folder: Path) -> None:
        self.page = page
        self.folder = folder

    def show(self, document: Document) -> None:
        """Open a run's page."""
        path = self.folder / "graph.html"
        path.write_text(write(document))
        self.page.open(path)

    def read_boxes(self) -> dict[str, tuple[int, float]]:
        """Return each box that is drawn by its text: its row and its share of the width, percent."""
        boxes = self.page.evaluate(
            "[...document.querySelectorAll('.box')].map((box) => [box.textContent, box.offsetTop / 18,"
            " 100 * box.getBoundingClientRect().width / document.getElementById('graph').clientWidth])"
        )
        return {text: (round(row), round(width, 1)) for text, row, width in boxes}

    def click(self, text: str) -> None:
        """Click on the box of a text."""
        x, y = self.page.evaluate(
            f"(() => {{ const box = [...document.querySelectorAll('.box')].find((one) => one.textContent ==="
            f" {json.dumps(text)}).getBoundingClientRect(); return [box.x + box.width / 2, box.y + 8]; }})()"
        )
        self.page.click(x, y)

    def read(self, element: str) -> str:
        """Return an element's text."""
        found: str = self.page.evaluate(f"document.getElementById({json.dumps(element)}).textContent")
        return found

    def choose(self, element: str, value: str) -> None:
        """Choose of a list."""
        self.page.evaluate(
            f"(() => {{ const list = document.getElementById({json.dumps(element)}); list.value = {json.dumps(value)};"
            " list.dispatchEvent(new Event('change')); })()"
        )


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlameGraph]:
    """A browser, shared by the tests of this module."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed here")
    folder = tmp_path_factory.mktemp("browser")
    with open_browser(folder) as page:
        yield FlameGraph(page, folder)
        assert page.errors == []
        assert {address.partition(":")[0] for address in page.requested} <= {"file", "about"}


def make_shares() -> Document:
    """Make a run of one series: 70 % in work, 30 % in rest, of which two thirds in sleep that work calls too."""
    rows = [
        make_row(["work", "main"], 60_000, 6),
        make_row(["sleep", "work", "main"], 10_000, 1),
        make_row(["rest", "main"], 10_000, 1),
        make_row(["sleep", "rest", "main"], 20_000, 2),
    ]
    return make_document(make_stack_result({None: rows}))


def test_boxes_are_as_wide_as_they_weigh(graph: FlameGraph) -> None:
    """Callers stand above what they call, the heaviest first, and the page says what was asked and lost."""
    graph.show(make_shares())
    boxes = graph.read_boxes()
    assert boxes | {"sleep": (3, 20.0)} == {
        "all": (0, 100.0),
        "main": (1, 100.0),
        "work": (2, 70.0),
        "rest": (2, 30.0),
        "sleep": (3, 20.0),
    }
    assert "cpu.profile: stack" in graph.read("asked")
    assert graph.page.evaluate("document.getElementById('series-label').hidden")
    graph.show(make_tree())
    assert "3 events dropped" in graph.read("reservations")


def test_narrow_boxes_are_no_wider_than_they_weigh(graph: FlameGraph) -> None:
    """What weighs a thousandth is drawn as wide as that, and nothing past the last box."""
    graph.show(make_document(make_stack_result({None: [make_row(["most"], 999), make_row(["least"], 1)]})))
    assert graph.read_boxes() == {"all": (0, 100.0), "most": (1, 99.9), "least": (1, 0.1)}
    assert graph.page.evaluate("document.getElementById('view').scrollWidth <= innerWidth")


def test_a_click_zooms_and_escape_shows_the_whole(graph: FlameGraph) -> None:
    """A clicked box and its callers take the whole width, its neighbours go, and Escape brings them back."""
    graph.show(make_shares())
    whole = graph.read_boxes()
    graph.click("rest")
    boxes = graph.read_boxes()
    assert boxes == {"all": (0, 100.0), "main": (1, 100.0), "rest": (2, 100.0), "sleep": (3, 66.7)}
    assert graph.read("detail").startswith("rest \u2014 30 \u00b5s, 30.0 % of all, 100.0 % of what is shown")
    assert "in /usr/bin/prog, named by symtab" in graph.read("detail")
    graph.page.press("Escape")
    assert graph.read_boxes() == whole
    graph.click("work")
    graph.page.evaluate("document.getElementById('whole').click()")
    assert graph.read_boxes() == whole


def test_a_search_marks_and_sums_what_it_finds(graph: FlameGraph) -> None:
    """`/` goes to the search; a stack counts once however often it matches, in whatever case."""
    graph.show(make_shares())
    graph.page.press("/")
    graph.page.type("SLEEP")
    assert graph.read("matched") == "matched 30.0 %, 30 \u00b5s"
    marked = graph.page.evaluate("[...document.querySelectorAll('.match')].map((box) => box.textContent)")
    assert marked == ["sleep", "sleep"]
    graph.page.evaluate("document.getElementById('search').select()")
    graph.page.type("e")
    assert graph.read("matched") == "matched 40.0 %, 40 \u00b5s"
    graph.page.evaluate("document.getElementById('search').select()")
    graph.page.type("nowhere")
    assert graph.read("matched") == "matched 0.0 %, 0 ns"


def test_reversed_puts_the_innermost_first(graph: FlameGraph) -> None:
    """Where stacks end is the first row, and who called it is below: one box for one function, whoever called."""
    graph.show(make_shares())
    graph.page.evaluate("document.getElementById('reversed').click()")
    boxes = graph.read_boxes()
    assert {name: boxes[name] for name in ("all", "sleep")} == {"all": (0, 100.0), "sleep": (1, 30.0)}
    graph.click("sleep")
    boxes = graph.read_boxes()
    assert (boxes["rest"], boxes["work"]) == ((2, 66.7), (2, 33.3))
    graph.page.evaluate("document.getElementById('reversed').click()")
    assert graph.read_boxes()["main"] == (1, 100.0)


def test_series_are_shown_together_apart_and_one_at_a_time(graph: FlameGraph) -> None:
    """Keyed by task: all threads as one, a tower for each, or one alone; a stack of 5001 frames scrolls to its end."""
    graph.show(make_tree())
    assert graph.read_boxes()["main"] == (1, 100.0)
    offered = graph.page.evaluate("[...document.getElementById('series').options].map((one) => one.textContent)")
    assert offered == ["all together", "each apart", "task 7", "task 8"]
    graph.choose("series", "apart")
    boxes = graph.read_boxes()
    assert (boxes["task 7"], boxes["task 8"]) == ((1, 95.2), (1, 4.8))
    graph.choose("series", "1")
    assert set(graph.read_boxes()) == {"all", "main", "down"}
    graph.page.evaluate(
        "(() => { const view = document.getElementById('view'); view.scrollTop = view.scrollHeight;"
        " return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))); })()"
    )
    assert graph.read_boxes()["down"] == (5001, 100.0)


def test_several_requests_are_chosen_between(graph: FlameGraph) -> None:
    """Each request has its own graph in its own unit."""
    faults = make_stack_result({None: [make_row(["touch"], 2_500)]}, source="mem.faults", unit="count")
    graph.show(make_document(*make_shares().results, faults))
    offered = graph.page.evaluate("[...document.getElementById('request').options].map((one) => one.textContent)")
    assert offered == ["cpu.profile", "mem.faults"]
    graph.choose("request", "1")
    assert set(graph.read_boxes()) == {"all", "touch"}
    graph.click("touch")
    assert graph.read("detail").startswith("touch \u2014 2,500 count")


def test_nasty_names_are_text_and_nothing_else(graph: FlameGraph) -> None:
    """No name becomes markup, what does not print is shown by its number, long names are cut."""
    graph.show(make_nasty_stacks())
    shown = set(graph.read_boxes())
    for text in (
        "a;b c 7",
        "line\\u000abreak\\u0009tab\\u000d",
        "nul\\u0000byte",
        "caf\\xe9\\xff",
        "</script><!-- & -->",
        "[unnamed]",
        "operator<<(std::ostream&, int) [recovered]",
    ):
        assert text in shown
    assert any(re.fullmatch(r"x{300}\u2026 \(65536 characters\)", text) for text in shown)
    assert graph.page.evaluate("document.querySelectorAll('script').length") == 2


def test_an_empty_run_is_a_page_all_the_same(graph: FlameGraph) -> None:
    """No stack is no box, and no error."""
    graph.show(make_document(make_stack_result({None: []})))
    assert graph.read_boxes() == {}
