"""The page in headless Chromium: it loads without complaint, and what one does with it works."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.report.browser import Browser, is_installed
from tests.report.models import large, page_of, small

pytestmark = pytest.mark.skipif(
    not is_installed(), reason="needs chromium and chromium-driver (tools/packages.py)"
)

ENTER, ESCAPE, DOWN = "\ue007", "\ue00c", "\ue015"

# A number for all that is drawn.
PIXELS = """
const canvas = document.querySelector(`[data-view=${arguments[0]}] canvas`);
const copy = document.createElement("canvas");
[copy.width, copy.height] = [canvas.width, canvas.height];
const context = copy.getContext("2d", { willReadFrequently: true });
context.drawImage(canvas, 0, 0);
const data = context.getImageData(0, 0, copy.width, copy.height).data;
let sum = 0;
for (let i = 0; i < data.length; i += 4) sum = (sum * 31 + data[i] * 7 + data[i + 3]) % 4294967291;
return sum;
"""
# How many pixels have the colour of rings around what is chosen, the overview left out.
RINGS = """
const canvas = document.querySelector(`[data-view=${arguments[0]}] canvas`);
const copy = document.createElement("canvas");
[copy.width, copy.height] = [canvas.width - 60, canvas.height];
const context = copy.getContext("2d", { willReadFrequently: true });
context.drawImage(canvas, 0, 0);
const data = context.getImageData(0, 0, copy.width, copy.height).data;
const mark = getComputedStyle(document.documentElement).getPropertyValue("--mark").trim();
const [r, g, b] = [1, 3, 5].map((at) => parseInt(mark.slice(at, at + 2), 16));
let count = 0;
for (let i = 0; i < data.length; i += 4) {
  count += data[i] === r && data[i + 1] === g && data[i + 2] === b;
}
return count;
"""
PANEL = "return document.getElementById('panel').innerText"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    made = {"small": small(), "large": large()}
    for name, model in made.items():
        (folder / f"{name}.html").write_text(page_of(model), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in made}


@pytest.fixture
def page(browser, pages):
    browser.open(pages["small"])
    assert browser.run("return document.documentElement.dataset.ready") == ""
    browser.run("document.getElementById('graph').scrollIntoView()")
    browser.settle()
    yield browser
    assert browser.errors() == []


def pixels(browser: Browser, view: str = "after") -> int:
    browser.settle()
    found: int = browser.run(PIXELS, view)
    return found


def test_zoom_and_pan_change_the_picture_and_come_back(page):
    start = pixels(page)
    assert pixels(page) == start
    page.click("[data-zoom=in]")
    closer = pixels(page)
    assert closer != start
    page.wheel("[data-view=after] canvas", 0, 40)
    assert pixels(page) != closer
    page.pointer(
        "[data-view=after] canvas", ("move", 0, 0), ("down", 0, 0), ("move", 0, -60), ("up", 0, 0)
    )
    moved = pixels(page)
    assert moved != closer
    page.run("document.querySelector('[data-view=after] canvas').focus()")
    page.keys("-")
    assert pixels(page) != moved
    page.keys("1")
    assert pixels(page) == start


def test_search_finds_and_chooses(page):
    page.type("#search", "relu")
    results = page.run(
        "return [...document.querySelectorAll('#results [role=option]')].map(e => e.innerText)"
    )
    assert [line.split() for line in results] == [["Relu", "r", "after"], ["Relu", "r", "before"]]
    before = pixels(page)
    page.keys(ENTER)
    assert pixels(page) != before
    told = page.run(PANEL)
    assert told.startswith("Relu")
    assert "Inside of the kernel rewrite.hexagon.ConvPointwise" in told
    assert page.run("return document.getElementById('results').hidden")
    assert page.run("return document.getElementById('told').textContent") == "Relu r, after"


def test_texts_arrive_as_they_were_sent(browser, pages, tmp_path):
    """They are coded by what they share with the one before, in units of the script's strings."""
    from onnx import parser

    names = ["\U0001f600a", "\U0001f600b", "größe", "größer", "aé", "a\u0301"]
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) {'
        + "".join(f" v{i} = Exp({'x' if i == 0 else f'v{i - 1}'})" for i in range(len(names)))
        + f" y = Exp(v{len(names) - 1}) }}"
    )
    for number, name in enumerate(names):
        model.graph.node[number].output[0] = model.graph.node[number + 1].input[0] = name
    path = tmp_path / "names.html"
    path.write_text(page_of(model), encoding="utf-8")
    browser.open(path)
    for name in names:
        browser.run("document.getElementById('search').value = ''")
        browser.type("#search", name)
        browser.keys(ENTER)
        assert browser.run("return document.querySelector('#panel .id').textContent") == name
    assert browser.errors() == []


def test_what_is_not_there_is_not_found(page):
    page.type("#search", "no such node")
    assert page.run("return document.getElementById('results').innerText") == "Nothing found"
    page.keys(ENTER)
    assert "Choose a node" in page.run(PANEL)
    page.keys(ESCAPE)
    assert page.run("return document.getElementById('results').hidden")


def test_a_click_chooses_what_is_under_it(page):
    """All of the small graph is in sight, and its middle is inside of the group."""
    page.click("[data-zoom=fit]")
    page.pointer("[data-view=after] canvas", ("move", 0, 0), ("down", 0, 0), ("up", 0, 0))
    assert page.run(PANEL).split()[0] in ("Conv", "Relu", "rewrite.hexagon.ConvPointwise", "CumSum")
    page.pointer("[data-view=after] canvas", ("move", -300, 0), ("down", 0, 0), ("up", 0, 0))
    assert "Choose a node" in page.run(PANEL)


def test_from_a_rule_to_its_nodes_and_back(page):
    page.run("document.querySelector('#rules a[data-rule]').click()")
    told = page.run(PANEL)
    assert told.split()[0] == "conv_chain"
    assert "Applied 1 time" in told
    assert "group y as" in told  # its text
    page.run(
        "[...document.querySelectorAll('#panel li .link')]"
        ".find(e => e.innerText.includes('ConvPointwise')).click()"
    )
    assert "Made by conv_chain" in page.run(PANEL)
    page.run(
        "[...document.querySelectorAll('#panel .link')].find(e => e.innerText === 'Conv c').click()"
    )
    told = page.run(PANEL)
    assert told.split()[:2] == ["Conv", "before"]
    assert page.run("return document.querySelector('[data-view=after]').hidden")
    assert page.run("return document.querySelector('[data-show=before]').ariaPressed") == "true"


def test_before_and_after_are_linked(page):
    page.click("[data-show=both]")
    other = pixels(page, "before")
    page.type("#search", "cumsum")
    page.keys(ENTER)
    assert pixels(page, "before") != other  # its counterpart has a ring
    assert "Not on the target: CumSum is not an operator of hexagon." in page.run(PANEL)


def test_arrows_follow_edges(page):
    page.type("#search", "relu")
    page.keys(ENTER)
    page.run("document.querySelector('[data-view=after] canvas').focus()")
    page.keys("\ue013")
    assert page.run(PANEL).split()[0] == "Conv"
    page.keys(DOWN)
    assert page.run(PANEL).split()[0] == "Relu"
    page.keys(ESCAPE)
    assert "Choose a node" in page.run(PANEL)


def test_tables_sort(page):
    column = (
        "return [...document.querySelectorAll('#rules tbody tr')].map(r => r.cells[1].innerText)"
    )
    page.run("document.querySelectorAll('#rules th button')[1].click()")
    found = page.run(column)
    assert found == sorted(found)
    page.run("document.querySelectorAll('#rules th button')[1].click()")
    assert page.run(column) == sorted(found, reverse=True)
    assert page.run("return document.querySelectorAll('#rules th')[1].ariaSort") == "descending"


def test_without_a_script_everything_reads(browser, pages):
    browser.devtools("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(pages["small"])
        document = browser.devtools("DOM.getDocument", depth=1)["root"]["nodeId"]
        shown = {}
        for selector in ("#graph", "#nodes", "#rules table", "#texts"):
            node = browser.devtools("DOM.querySelector", nodeId=document, selector=selector)
            assert node["nodeId"], selector
            try:
                shown[selector] = browser.devtools("DOM.getBoxModel", nodeId=node["nodeId"])
            except AssertionError:  # not laid out
                shown[selector] = None
    finally:
        browser.devtools("Emulation.setScriptExecutionDisabled", value=False)
    assert shown.pop("#graph") is None
    assert all(shown.values())


def test_dark_mode_has_its_own_colours(browser, pages):
    browser.open(pages["small"])
    light = browser.run("return getComputedStyle(document.body).backgroundColor")
    picture = pixels(browser)
    browser.dark()
    try:
        assert browser.run("return getComputedStyle(document.body).backgroundColor") != light
        assert pixels(browser) != picture  # painted again at once
    finally:
        browser.devtools("Emulation.setEmulatedMedia", features=[])
    assert browser.errors() == []


CONTRAST = """
const parse = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
const linear = (v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
const weights = [.2126, .7152, .0722];
const lum = (c) => parse(c).reduce((sum, v, i) => sum + weights[i] * linear(v / 255), 0);
const probe = document.createElement("i");
document.body.append(probe);
const colour = (name) => {
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
};
const found = arguments[0].map(([ink, paper]) => {
  const [a, b] = [lum(colour(ink)), lum(colour(paper))].sort((x, y) => y - x);
  return (a + .05) / (b + .05);
});
probe.remove();
return found;
"""
PAIRS = [
    ("ink", "paper"), ("ink", "panel"), ("soft", "paper"), ("soft", "panel"), ("accent", "paper"),
    ("accent", "panel"), ("accent", "accent-soft"), ("ink", "accent-soft"), ("soft", "accent-soft"),
    ("group", "group-soft"), ("warn", "warn-soft"), ("warn", "paper"), ("bad", "paper"),
    ("good", "paper"), ("soft", "warn-soft"),
]  # fmt: skip


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_has_contrast(browser, pages, dark):
    """4.5 to 1 (WCAG 2.2, success criterion 1.4.3)."""
    browser.open(pages["small"])
    if dark:
        browser.dark()
    try:
        found = browser.run(CONTRAST, PAIRS)
    finally:
        browser.devtools("Emulation.setEmulatedMedia", features=[])
    low = {pair: round(ratio, 2) for pair, ratio in zip(PAIRS, found, strict=True) if ratio < 4.5}
    assert low == {}


FRAMES = """
const done = arguments[0], canvas = document.querySelector("[data-view=after] canvas");
const box = canvas.getBoundingClientRect(), times = [];
let start = performance.now(), number = 0;
function step(now) {
  times.push(now - start);
  start = now;
  if (number++ === 40) { done(times.slice(2).sort((a, b) => a - b)[10]); return; }
  canvas.dispatchEvent(new WheelEvent("wheel",
    { deltaY: 150, clientX: box.left + 200, clientY: box.top + 200, cancelable: true }));
  requestAnimationFrame(step);
}
requestAnimationFrame(step);
"""


def test_5000_nodes_open_and_move_at_once(browser, pages):
    start = time.monotonic()
    browser.open(pages["large"])
    browser.run("return document.documentElement.dataset.ready")
    assert time.monotonic() - start < 15  # 0.6 s on a quiet machine
    browser.run("document.getElementById('graph').scrollIntoView()")
    for zoom in ("width", "fit"):
        browser.click(f"[data-zoom={zoom}]")
        browser.settle()
        body = {"script": FRAMES, "args": []}
        frame = browser.call("POST", f"{browser.session}/execute/async", body)
        assert frame < 100, f"{zoom}: a frame takes {frame:.0f} ms"  # 17 on a quiet machine
    start = time.monotonic()
    browser.type("#search", "softmax layers.120/")
    browser.keys(ENTER)
    browser.settle()
    assert time.monotonic() - start < 15
    assert browser.run(PANEL).split()[:3] == [
        "Softmax",
        "after",
        "/encoder/layers.120/block/Softmax_6_output_0",
    ]
    assert browser.run(RINGS, "after") > 100
    browser.click("[data-show=before]")  # its counterpart is in sight there
    browser.settle()
    assert browser.run(RINGS, "before") > 100
    browser.click("[data-zoom=width]")
    browser.settle()
    assert browser.run(RINGS, "before") == 0
    browser.click("[data-show=both]")
    browser.settle()
    assert browser.run(RINGS, "after") > 100
    assert browser.errors() == []
